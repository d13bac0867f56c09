"""The version, in its only place: packaging, `emorl --version` and every result read it here."""

__version__ = "0.2.0"
