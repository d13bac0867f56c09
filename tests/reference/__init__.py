"""Reference mode: the authors' arithmetic, against which tests and experiments hold the package's own."""

from reference.reference_mode import Reference

__all__ = ["Reference"]
