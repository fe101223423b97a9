"""A Habitat scene dataset: which file describes each stage, object, articulated object and scene.

Format: habitat-sim's docs/pages/attributesJSON.rst. Templates are looked up by the name of their file, as ReplicaCAD's
scenes name them ("objects/frl_apartment_sofa"); templates that only the dataset's own `configs` lists define are not
read.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from hab.habitat.assets import DataError

Config = dict[str, Any]
_ENDINGS = {
    "stages": ".stage_config.json",
    "objects": ".object_config.json",
    "articulated_objects": ".ao_config.json",
    "scene_instances": ".scene_instance.json",
}
"""What the names of the files of each kind end in."""


@dataclass(frozen=True)
class Template:
    """One description file of a scene dataset."""

    name: str
    file: Path
    """Paths that it names are relative to its folder."""
    config: Config

    def asset(self, key: str) -> Path:
        """Return the file that an entry names. Raises `DataError` where there is none."""
        file = self.file.parent / str(self.config[key])
        if not file.is_file():
            raise DataError(f"{self.file}: {key} names {self.config[key]}, which is not there")
        return file


class SceneDataset:
    """The files of one `*.scene_dataset_config.json`, by kind and name."""

    def __init__(self, file: Path) -> None:
        """Raises `DataError` where the file is no description of a scene dataset, or finds no scene."""
        self.file = file
        self.files: dict[str, dict[str, Path]] = {}
        listed = read_json(file)
        for kind, ending in _ENDINGS.items():
            told = listed.get(kind, {})
            if not isinstance(told, dict) or not isinstance(told.get("default_attributes", {}), dict):
                raise DataError(f"{file}: {kind}, or its default_attributes, is no table")
            paths = told.get("paths", {})
            if not isinstance(paths, dict) or not all(map(_are_places, paths.values())):
                raise DataError(f"{file}: {kind}.paths is no table of file endings, with a list of places each")
            self.files[kind] = dict(sorted(self._listed(paths, ending).items()))
        self._urdfs = dict(
            sorted(self._listed(listed.get("articulated_objects", {}).get("paths", {}), ".urdf").items())
        )
        self._defaults = {kind: listed.get(kind, {}).get("default_attributes", {}) for kind in ("stages", "objects")}
        if not self.files["scene_instances"]:
            raise DataError(f"{file}: finds no scene (scene_instances.paths)")

    def template(self, kind: str, name: str) -> Template:
        """Return a template by its name, or the path that a scene or an episode names it by. Raises `DataError`."""
        stem = Path(name).name.removesuffix(_ENDINGS[kind])
        file = self.files[kind].get(stem)
        if file is None:
            raise DataError(f"{self.file}: finds none of its {kind.replace('_', ' ')} called {stem}")
        return Template(stem, file, {**self._defaults.get(kind, {}), **read_json(file)})

    def articulated(self, name: str) -> tuple[Template, Path]:
        """Return an articulated object's template, empty where it has none, and its URDF. Raises `DataError`."""
        stem = Path(name).name
        urdf = self._urdfs.get(stem)
        if stem in self.files["articulated_objects"]:
            template = self.template("articulated_objects", stem)
            urdf = template.asset("urdf_filepath") if "urdf_filepath" in template.config else urdf
        else:
            template = Template(stem, self.file, {})
        if urdf is None:
            raise DataError(f"{self.file}: finds no URDF of an articulated object called {stem}")
        return template, urdf

    def _listed(self, paths: Config, ending: str) -> dict[str, Path]:
        """Return the files of one ending that lie where the dataset looks, by the stems of their names."""
        found: dict[str, Path] = {}
        for patterns in paths.values():
            for pattern in patterns:
                for place in sorted(self.file.parent.glob(pattern.strip("/"))):
                    files = sorted(place.glob(f"*{ending}")) if place.is_dir() else [place]
                    found.update({f.name.removesuffix(ending): f for f in files if f.name.endswith(ending)})
        return found


def _are_places(told: Any) -> bool:
    return isinstance(told, list) and all(isinstance(place, str) and place.strip("/") for place in told)


@lru_cache(maxsize=8)
def scene_dataset(file: Path) -> SceneDataset:
    return SceneDataset(file)


def read_json(file: Path) -> Config:
    """Return a JSON file's table. Raises `DataError`."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise DataError(f"{file}: is no JSON file ({' '.join(str(error).split())})") from error
    if not isinstance(content, dict):
        raise DataError(f"{file}: holds no table")
    return content
