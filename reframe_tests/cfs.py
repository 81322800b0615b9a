"""The Community File System at acceptance: the recipes of configs/recipes/cfs.yaml."""

from __future__ import annotations

import sys
from pathlib import Path

import reframe as rfm
from reframe.core.builtins import parameter

sys.path.append(str(Path(__file__).resolve().parent))  # ReFrame removes a path by its index

from common.acceptance import Acceptance
from common.recipe_case import recipes_of


@rfm.simple_test
class Cfs(Acceptance):
    """One published run."""

    system = "cfs"
    recipe = parameter(list(recipes_of("cfs")), type=str, loggable=True)
