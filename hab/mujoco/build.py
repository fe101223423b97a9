"""Compiles a `Scene` and its objects into a MuJoCo model description."""

from __future__ import annotations

import math
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from hab.objects import object_model
from hab.scene import Articulation, Geom, Scene, volume

TIMESTEP_S = 1 / 120
SCENE_GROUP, DECORATION_GROUP = 0, 4
"""Geom groups: what is visible and collides; what is only seen."""
ANYTHING, STATIC = 1, 2
"""Collision bits: everything solid has the first one; furniture and floor have the second one, too."""
DOOR_KG, DRAWER_KG = 8.0, 3.0
DOOR_DAMPING, DRAWER_DAMPING = 1.0, 8.0
"""N m s/rad and N s/m."""
DOOR_FRICTION, DRAWER_FRICTION = 1.5, 2.0
"""N m and N."""
ROLLING_M = {"sphere": 0.004, "cylinder": 0.002}
"""Rolling resistance. Soft fruit does not roll away, nor does a can that is full of something thick or grainy (6 % of a
soup can's weight): that is far above a hard ball's or an empty tube's."""
PARK_M = (1.0, 0.25)
"""Objects that an episode has not stand beyond the house, so far off its wall and from each other."""
FLOOR_MARGIN_M = 0.1
"""The floor is drawn that far under the outer walls."""

_SHAPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
}


@dataclass(frozen=True)
class Material:
    """How a surface looks: its texture's name in `_TEXTURES` ("" = none) and its finish."""

    texture: str = ""
    repeat: tuple[float, float] = (1.0, 1.0)
    specular: float = 0.1
    shininess: float = 0.1
    emission: float = 0.0
    uniform: bool = False
    """Repeat per metre instead of per face."""
    flat: bool = False
    """A texture mapped from above (floors) instead of onto all six sides."""


MATERIALS: dict[str, Material] = {
    "wood_floor": Material("planks", (0.5, 0.5), 0.2, 0.3, uniform=True, flat=True),
    "dark_floor": Material("dark_planks", (0.5, 0.5), 0.25, 0.3, uniform=True, flat=True),
    "tile_floor": Material("floor_tiles", (0.6, 0.6), 0.25, 0.4, uniform=True, flat=True),
    "wood": Material("grain", specular=0.15, shininess=0.3),
    "fabric": Material("weave", (6, 6), specular=0.0, shininess=0.0),
    "rug": Material("weave", (12, 12), specular=0.0, shininess=0.0, flat=True),
    "stone": Material("speckle", (3, 3), specular=0.35, shininess=0.6),
    "tiles": Material(specular=0.3, shininess=0.6),
    "steel": Material(specular=0.7, shininess=0.7),
    "leaves": Material("speckle", (2, 2), specular=0.1, shininess=0.1),
    "glow": Material(emission=0.5),
}
"""The surfaces a `Geom.material` may name."""


def scene_to_spec(scene: Scene) -> mujoco.MjSpec:
    """The scene with its articulations at 0 and one free body per object, parked beyond the house.

    Bodies: one per articulation (its joint has the same name), piece of furniture that has any, and object (its free
    joint has the same name, too). The rest of the house is the world's: a body takes time, asleep or not.
    """
    spec = mujoco.MjSpec()
    spec.modelname = f"apartment_{scene.seed}"
    spec.compiler.degree = False
    _options(spec)
    _materials(spec)
    _lights(spec)
    _floor(spec, scene)
    world = spec.worldbody
    carcasses = {articulation.furniture for articulation in scene.articulations}
    for piece in scene.furniture:
        body = world.add_body(name=piece.name) if piece.name in carcasses else world
        for geom in piece.geoms:
            added = _add_geom(body, geom, geom.name)
            if geom.collides:
                added.contype = added.conaffinity = ANYTHING | STATIC
    for articulation in scene.articulations:
        _add_articulation(spec, articulation)
    for i, name in enumerate(scene.objects):
        _add_object(spec, name, (scene.bounds[2] + PARK_M[0], scene.bounds[1] + PARK_M[1] * i))
    return spec


def _options(spec: mujoco.MjSpec) -> None:
    spec.option.timestep = TIMESTEP_S
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.enableflags |= int(mujoco.mjtEnableBit.mjENBL_SLEEP)
    # A blown-up state is to be reported (`SimulationError`), not silently put back to the model's start.
    spec.option.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
    spec.visual.headlight.ambient = [0.47, 0.47, 0.47]
    spec.visual.headlight.diffuse = [0.16, 0.16, 0.16]
    spec.visual.headlight.specular = [0.05, 0.05, 0.05]
    spec.visual.map.znear = 0.005
    spec.visual.map.zfar = 5.0
    spec.visual.quality.shadowsize = 2048
    spec.visual.quality.numquads = 1  # light is the same all over a face
    spec.visual.map.shadowclip = 1.25  # extents to either side: the longest house
    spec.visual.global_.offwidth, spec.visual.global_.offheight = 1280, 960
    spec.stat.extent = 6.0
    spec.stat.center = [0.0, 0.0, 1.0]


def _lights(spec: mujoco.MjSpec) -> None:
    """Light from above, which casts shadows, and weaker light from two sides, so that no wall is black."""
    # The ceiling's light leans along one axis only: MuJoCo's shadow bias leaves speckles if along two.
    for name, direction, strength in (
        ("ceiling", (0.08, 0.0, -1.0), 0.36),
        ("east", (-0.80, -0.40, -0.30), 0.26),
        ("west", (0.70, 0.55, -0.30), 0.22),
    ):
        spec.worldbody.add_light(
            name=name,
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL,
            pos=[0, 0, 6],
            dir=direction,
            diffuse=[strength] * 3,
            specular=[0.1] * 3,
            castshadow=name == "ceiling",
        )


def _floor(spec: mujoco.MjSpec, scene: Scene) -> None:
    x0, y0, x1, y1 = scene.bounds
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        pos=[(x0 + x1) / 2, (y0 + y1) / 2, 0.0],
        size=[(x1 - x0) / 2 + FLOOR_MARGIN_M, (y1 - y0) / 2 + FLOOR_MARGIN_M, 1.0],  # drawn in squares of 1 m
        material=scene.floor_material,
        condim=3,
        friction=[0.8, 0.005, 0.0001],
        contype=ANYTHING | STATIC,
        conaffinity=ANYTHING | STATIC,
        group=SCENE_GROUP,
    )


def _add_geom(body: mujoco.MjsBody, geom: Geom, name: str) -> mujoco.MjsGeom:
    added = body.add_geom(
        name=name,
        type=_SHAPES[geom.shape],
        pos=list(geom.pos),
        quat=list(geom.quat),
        size=list(geom.size),
        rgba=list(geom.rgba),
        condim=3,
        friction=[0.8, 0.005, 0.0001],
    )
    if geom.material:
        added.material = geom.material
    if geom.collides:
        added.group = SCENE_GROUP
    else:
        added.group, added.contype, added.conaffinity, added.mass = DECORATION_GROUP, 0, 0, 0.0
    return added


def _add_articulation(spec: mujoco.MjSpec, art: Articulation) -> None:
    quat = [math.cos(art.yaw / 2), 0.0, 0.0, math.sin(art.yaw / 2)]
    body = spec.worldbody.add_body(name=art.name, pos=list(art.pos), quat=quat)
    door = art.kind == "fridge"
    body.add_joint(
        name=art.name,
        type=mujoco.mjtJoint.mjJNT_HINGE if door else mujoco.mjtJoint.mjJNT_SLIDE,
        axis=list(art.axis),
        pos=list(art.anchor),
        range=list(art.joint_range),
        limited=True,
        damping=[DOOR_DAMPING if door else DRAWER_DAMPING, 0, 0],
        frictionloss=DOOR_FRICTION if door else DRAWER_FRICTION,
        armature=0.01,
    )
    added = [(geom, _add_geom(body, geom, geom.name)) for geom in art.geoms]
    _share_mass(added, DOOR_KG if door else DRAWER_KG)
    # The link runs inside of its carcass with gaps of millimetres; the joint's range is what stops it.
    spec.add_exclude(name=f"{art.name}/{art.furniture}", bodyname1=art.name, bodyname2=art.furniture)


def _add_object(spec: mujoco.MjSpec, name: str, park: tuple[float, float]) -> None:
    model = object_model(name)
    body = spec.worldbody.add_body(name=name, pos=[park[0], park[1], model.half_height_m])
    body.add_freejoint(name=name)
    added = []
    for geom in model.geoms:
        shape = _add_geom(body, geom, f"{name}/{geom.name}")
        shape.condim = 6 if geom.shape in ROLLING_M else 4
        shape.friction = [0.9, 0.01, ROLLING_M.get(geom.shape, 0.0)]
        # Stiff, with precedence over what it touches: MuJoCo scales contact by mass, and an arm that presses a 50 g
        # orange onto a table with 200 N would otherwise sink it by its radius.
        shape.priority, shape.solimp = 1, (0.98, 0.995, 0.001, 0.5, 2.0)
        added.append((geom, shape))
    _share_mass(added, model.mass_kg)


def _share_mass(added: list[tuple[Geom, mujoco.MjsGeom]], mass_kg: float) -> None:
    """Distribute a body's mass over its colliding geoms by volume."""
    solid = [(geom, shape) for geom, shape in added if geom.collides]
    total = sum(volume(geom) for geom, _ in solid)
    for geom, shape in solid:
        shape.mass = mass_kg * volume(geom) / total


def _materials(spec: mujoco.MjSpec) -> None:
    """Add every material and the textures they use; a texture is tinted by its geom's colour."""
    spec.add_texture(
        name="skybox",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.93, 0.95, 0.97],
        rgb2=[0.80, 0.84, 0.88],
        width=64,
        height=384,
    )
    used = {(material.texture, material.flat) for material in MATERIALS.values() if material.texture}
    for name, flat in sorted(used):
        image = _TEXTURES[name]
        texture = spec.add_texture(name=f"{name}_{'flat' if flat else 'cube'}")
        texture.type = mujoco.mjtTexture.mjTEXTURE_2D if flat else mujoco.mjtTexture.mjTEXTURE_CUBE
        pixels = image if flat else np.concatenate([image] * 6)
        texture.height, texture.width, texture.nchannel = pixels.shape[0], pixels.shape[1], 3
        texture.data = pixels.tobytes()
    for name, material in MATERIALS.items():
        added = spec.add_material(name=name)
        added.specular, added.shininess, added.emission = material.specular, material.shininess, material.emission
        if material.texture:
            added.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = (
                f"{material.texture}_{'flat' if material.flat else 'cube'}"
            )
            added.texrepeat, added.texuniform = list(material.repeat), material.uniform


def _tinted(grey: NDArray[np.floating], rgb: tuple[float, float, float] = (1.0, 1.0, 1.0)) -> NDArray[np.uint8]:
    return (np.clip(grey[..., None] * np.array(rgb), 0, 1) * 255).astype(np.uint8)


def _noise(rng: np.random.Generator, size: int, rows: int, cols: int) -> NDArray[np.floating]:
    """Noise in [0, 1] of rows x cols cells, stretched to a square image that tiles."""
    return np.kron(rng.random((rows, cols)), np.ones((size // rows, size // cols)))


def _grain(size: int = 128) -> NDArray[np.uint8]:
    rng = np.random.default_rng(1)
    return _tinted(0.88 + 0.08 * _noise(rng, size, size, 4) + 0.06 * _noise(rng, size, 32, 1) - 0.02)


def _planks(rgb: tuple[float, float, float], size: int = 256, boards: int = 16) -> NDArray[np.uint8]:
    """Floor boards with staggered ends; one image is 2 m wide."""
    rng = np.random.default_rng(2)
    image = 0.92 + 0.05 * _noise(rng, size, size, 8)
    high = size // boards
    for row in range(boards):
        rows = slice(row * high, (row + 1) * high)
        cut = int(rng.integers(size))
        shade = rng.uniform(0.86, 1.04, 2)
        columns = (np.arange(size) + cut) % size < size // 2
        image[rows] *= np.where(columns, shade[0], shade[1])
        image[row * high] *= 0.72
        image[rows, [(size - cut) % size, (size // 2 - cut) % size]] *= 0.75
    return _tinted(image, rgb)


def _tile_grid(size: int, count: int, rgb: tuple[float, float, float], joint: float, seed: int) -> NDArray[np.uint8]:
    rng = np.random.default_rng(seed)
    image = 0.94 + 0.05 * _noise(rng, size, count, count)
    cell = size // count
    image[::cell], image[:, ::cell] = joint, joint
    return _tinted(image, rgb)


def _weave(size: int = 64) -> NDArray[np.uint8]:
    rng = np.random.default_rng(3)
    i, j = np.mgrid[:size, :size]
    return _tinted(0.90 + 0.06 * ((i + j) % 4 < 2) + 0.04 * rng.random((size, size)))


def _speckle(size: int = 128) -> NDArray[np.uint8]:
    rng = np.random.default_rng(4)
    return _tinted(0.86 + 0.14 * _noise(rng, size, size // 2, size // 2) ** 0.5)


_TEXTURES: dict[str, NDArray[np.uint8]] = {
    "grain": _grain(),
    "planks": _planks((0.80, 0.64, 0.46)),
    "dark_planks": _planks((0.52, 0.38, 0.27)),
    "floor_tiles": _tile_grid(256, 4, (0.76, 0.74, 0.70), 0.66, 5),
    "weave": _weave(),
    "speckle": _speckle(),
}
