"""Rules about the code as a whole, as tests rather than conventions."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import emorl
from conftest import ROOT
from emorl.experiments import EXPERIMENTS

PACKAGE = ROOT / "src" / "emorl"
MODULES = sorted(PACKAGE.rglob("*.py"))

# The arrow: nothing imports what stands below it in this list.
LAYERS = [
    "version",
    "errors", "files", "objects", "panels", "types", "probability", "geco", "schedules", "config", "nn", "models",
    "data", "evaluation", "runs", "pictures", "export", "training", "plots", "report", "experiments", "explorer", "cli",
    "__init__", "__main__",
]  # fmt: skip
FORBIDDEN = {
    "data": {"probability", "geco", "config", "schedules", "nn", "models"},  # scenes need types only
    "nn": {"geco", "config"},  # layers take plain arguments
    "models": {"config"},
    "plots": {"training"},
    "report": {"training"},
}


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def layer_of(path: Path) -> str:
    relative = path.relative_to(PACKAGE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def internal_imports(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "emorl":
            names = (
                [node.module.split(".")[1]] if "." in node.module else [alias.name for alias in node.names]
            )
            found.update(names)
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[1] for alias in node.names if alias.name.startswith("emorl."))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path: Path) -> None:
    own = layer_of(path)
    for name in internal_imports(path):
        assert LAYERS.index(name) <= LAYERS.index(own), f"{own} imports {name}"
        assert name not in FORBIDDEN.get(own, set()), f"{own} imports {name}"
        if own == "evaluation" and name == "models":
            assert "models.base" in path.read_text()
            assert "from emorl.models import" not in path.read_text()


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_experiments_share_what_is_not_an_experiment(name: str) -> None:
    source = (PACKAGE / "experiments" / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    imported = re.findall(r"^from emorl\.experiments\.(\w+) import", source, flags=re.MULTILINE)
    assert not {module.replace("_", "-") for module in imported} & set(EXPERIMENTS)


def test_the_guide_for_contributors_knows_every_part() -> None:
    guide = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = guide.split("## Find your way")[1].split("##")[0]
    named = {
        name
        for row in re.findall(r"^\| (`.*?) \|", table, flags=re.M)
        for name in re.findall(r"`(\w+)`", row)
    }
    assert named == {layer_of(path) for path in MODULES} - {"__init__", "__main__"}


def test_the_arrow_would_catch_a_wrong_import(tmp_path: Path) -> None:
    wrong = tmp_path / "x.py"
    wrong.write_text("import emorl.training.trainer\nfrom emorl.cli import main\nfrom emorl import data\n")
    assert internal_imports(wrong) == {"training", "cli", "data"}


# The package itself is imported before any of its modules: what it imports is always there, the rest is forgotten.
IMPORT_EACH = """
import sys, importlib, emorl
always = set(sys.modules)
for name in sys.argv[1:]:
    for module in [module for module in sys.modules if module.startswith("emorl") and module not in always]:
        parent, _, child = module.rpartition(".")
        if parent in sys.modules:
            vars(sys.modules[parent]).pop(child, None)
        del sys.modules[module]
    importlib.import_module(name)
"""


def test_every_module_imports_alone() -> None:
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in MODULES]
    names = [name.removesuffix(".__init__") for name in names if not name.endswith("__main__")]
    result = subprocess.run(
        [sys.executable, "-c", IMPORT_EACH, *names], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr


def test_import_is_light() -> None:
    heavy = [
        "lightning_fabric",
        "sklearn",
        "matplotlib",
        "h5py",
        "starlette",
        "tyro",
        "pandas",
        "huggingface_hub",
    ]
    code = f"import sys, emorl; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_files_stay_readable(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 400
    assert ast.get_docstring(tree_of(path)), "a module says what lives in it"
    if layer_of(path) not in ("runs", "training", "cli"):
        assert "torch.cuda" not in source


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_plots_draw(path: Path) -> None:
    """Figures are made in one place, so that they look alike."""
    if layer_of(path) != "plots":
        assert "matplotlib" not in imported_packages(path)


def imported_packages(path: Path) -> set[str]:
    found = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found.add(node.module.split(".")[0])
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
    return found


INHERITED = {"forward", "arrays", "step"}  # of nn.Module, SceneDataset and Optimizer, which say what they do


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_public_functions_say_what_they_do(path: Path) -> None:
    silent = [name for name, node in public_functions(path) if not ast.get_docstring(node)]
    assert not silent, f"without a docstring: {', '.join(silent)}"


def public_functions(path: Path) -> Iterator[tuple[str, ast.FunctionDef | ast.ClassDef]]:
    """Functions, classes and methods of a module, but for methods that a base class describes."""
    module = tree_of(path)
    classes = [node for node in module.body if isinstance(node, ast.ClassDef)]
    for node in [*module.body, *(method for one in classes for method in one.body)]:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        if not node.name.startswith("_") and node.name not in INHERITED:
            yield node.name, node


def test_public_names() -> None:
    assert emorl.__all__ == sorted(
        emorl.__all__, key=lambda name: (not name.isupper(), not name[0].isupper(), name)
    )
    assert all(hasattr(emorl, name) for name in emorl.__all__)
    assert set(emorl.__all__) == {
        "DATASETS", "MODELS", "PRESETS", "DataConfig", "Decomposition", "Model", "Outcome", "Run", "RunConfig", "Scene",
        "Scores", "TrainConfig", "UserError", "build", "decompose", "evaluate", "from_pretrained", "load",
        "open_dataset", "push_to_hub", "save_pretrained", "train",
    }  # fmt: skip


def test_the_repository_speaks_of_the_product_alone() -> None:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False
    ).stdout.split()
    for name in tracked:
        path = ROOT / name
        if path.suffix in {".py", ".md", ".toml", ".txt", ".json", ".cff", ".ipynb", ""} and path.is_file():
            text = path.read_text(encoding="utf-8")
            assert "/work" + "/" not in text, name
            assert "/ro" + "ot/" not in text, name
