"""An episode as a Rerun recording: what happened in three dimensions, what the robot saw, and what its policy thought.

Rerun (rerun.io, the extra `rerun`) shows it: `rerun FILE.rrd`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.actions import CONTROL_HZ, Action
from hab.episodes import make_episode
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import HOUSE_OBJECTS, object_model
from planner.agent import Agent, load_policies, play_episode, seed_draws
from planner.chain import Limits
from planner.task_planner import PlanStep, interactions
from skills.skill import Goal, SkillPolicy
from videos.points import laser_points
from videos.render import renders

if TYPE_CHECKING:
    import rerun as rr

EVERY = 3
"""Control steps from one recorded moment to the next: 10 Hz."""
DEPTH_EVERY = 9
STILL_M = 1e-4
"""A body is recorded again when it has moved by so much, or turned by as much (radians)."""


class RerunMissing(RuntimeError):
    """rerun-sdk is not installed; the message is one line."""


def check_rerun() -> None:
    """Raise `RerunMissing` where recordings cannot be written."""
    try:
        import rerun  # noqa: F401
    except ImportError as error:
        raise RerunMissing("--rerun needs rerun-sdk: pip install 'tpsrl[rerun]'") from error


def record_scenario(
    scenario: str,
    split: str,
    index: int,
    obs: str | None,
    agent: Agent,
    limits: Limits,
    out: Path,
    seed: int = 0,
    objects: int = HOUSE_OBJECTS,
) -> bool:
    """Play one episode of a scenario and write its recording; return whether it succeeded.

    `seed`: of what the skills draw. The file is there only when it is complete. Without OpenGL there is no depth in it.
    """
    import rerun as rr

    episode = make_episode(scenario, split, index, objects=objects)
    sim = MujocoSimulator()
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.stem}.part.rrd")
    recording = rr.RecordingStream("tpsrl", recording_id=f"{scenario}_{split}_{index}_{agent.skills}")
    try:
        recording.save(part)
        sim.reset(episode)
        policies = load_policies(agent, scenario, obs)
        recorder = _Recorder(recording, sim, interactions(episode))

        def record(number: int, action: Action, done: Sequence[bool]) -> None:
            recorder.moment(policies, done)

        seed_draws(seed, index)
        result = play_episode(sim, episode, agent, policies, limits, record, recorder.call)
        recorder.end("whole task done" if result.success else f"{result.failed_skill}: {result.reason}")
    except BaseException:
        recording.disconnect()
        part.unlink(missing_ok=True)
        raise
    finally:
        sim.close()
    recording.flush()
    recording.disconnect()
    part.replace(out)
    return result.success


class _Recorder:
    """Writes one episode's moments."""

    def __init__(self, recording: rr.RecordingStream, sim: MujocoSimulator, names: Sequence[str]) -> None:
        self._to, self._sim, self._names = recording, sim, names
        self._label, self._done, self._new = "", 0, False
        self._step = PlanStep("", "", Goal((0.0, 0.0, 0.0)), "")
        self._sees = renders()
        self._was: dict[int, NDArray[np.float64]] = {}
        self._lay_out()

    def call(self, label: str, step: PlanStep) -> None:
        """Take note of a call of a skill that begins."""
        self._label, self._step, self._new = label, step, True

    def moment(self, policies: Mapping[str, SkillPolicy], done: Sequence[bool]) -> None:
        """Record the present state, if its turn has come or the plan has gone on."""
        import rerun as rr

        sim, new, step = self._sim, self._new, self._step
        if sim.steps % EVERY and not new and sum(done) == self._done:
            return
        self._at(sim.steps)
        if new:
            self._new = False
            self._to.log("plan", rr.TextLog(f"{self._label}: {step.skill} {step.action}"))
            place = rr.Points3D([step.goal.position], radii=0.05, colors=[150, 150, 150], labels=[step.skill])
            self._to.log("world/skill_goal", place)
        if sum(done) > self._done:
            self._to.log("plan", rr.TextLog(f"achieved: {self._names[sum(done) - 1]}"))
            self._done = sum(done)
        self._to.log("interactions", rr.Scalars(self._done))
        policy = policies.get(step.skill)  # recoveries are scripts
        for told in ("value", "stop_probability"):  # oracles have neither
            if getattr(policy, told, None) is not None:
                self._to.log(f"policy/{told}", rr.Scalars(getattr(policy, told)))
        self._bodies()
        self._laser()
        if self._sees and sim.steps % DEPTH_EVERY == 0:
            millimetres = np.round(sim.depth()[:, :, 0] * (1000.0 * robot.DEPTH_MAX_M)).astype(np.uint16)
            self._to.log("head/depth", rr.DepthImage(millimetres, meter=1000.0))

    def end(self, said: str) -> None:
        import rerun as rr

        self._at(self._sim.steps)
        self._bodies()
        self._to.log("plan", rr.TextLog(said))

    def _at(self, steps: int) -> None:
        self._to.set_time("step", sequence=steps)
        self._to.set_time("episode", duration=steps / CONTROL_HZ)

    def _lay_out(self) -> None:
        """Record what never changes: every body's shapes, and where the objects are to go."""
        import rerun as rr

        model = self._sim.model
        self._to.log("world", rr.ViewCoordinates.RIGHT_HAND_Z_UP, static=True)
        for geom in range(model.ngeom):
            shape = _shape(model, geom)
            if shape is not None:
                entity = f"{self._entity(int(model.geom_bodyid[geom]))}/{geom}"
                pose = rr.Transform3D(
                    translation=model.geom_pos[geom], quaternion=rr.Quaternion(xyzw=np.roll(model.geom_quat[geom], -1))
                )
                self._to.log(entity, pose, static=True)
                self._to.log(entity, shape, static=True)
        for target in self._sim.episode.targets:
            half = object_model(target.object).half_extents
            box = rr.Boxes3D(
                centers=[target.goal_pos], half_sizes=[half], labels=[target.object], colors=[90, 200, 120]
            )
            self._to.log(f"world/goals/{target.object}", box, static=True)
        self._at(0)
        self._bodies()

    def _entity(self, body: int) -> str:
        return "world/" + self._sim.model.body(body).name.replace("/", "_").replace("robot0:", "")

    def _bodies(self) -> None:
        """Record the bodies that have moved."""
        import rerun as rr

        data = self._sim.data
        for body in range(self._sim.model.nbody):
            pose = np.concatenate((data.xpos[body], data.xquat[body]))
            was = self._was.get(body)
            if was is None or np.abs(pose - was).max() > STILL_M:
                self._was[body] = pose
                turned = rr.Quaternion(xyzw=np.roll(pose[3:], -1))
                self._to.log(self._entity(body), rr.Transform3D(translation=pose[:3], quaternion=turned))

    def _laser(self) -> None:
        import rerun as rr

        points = laser_points(self._sim)
        self._to.log("world/laser", rr.Points3D(points, radii=0.02, colors=[220, 60, 60]))


def _shape(model: mujoco.MjModel, geom: int) -> Any:
    """Return what a visible geom looks like, in its own frame; None for what is not drawn."""
    import rerun as rr

    kinds = mujoco.mjtGeom
    kind, size = kinds(model.geom_type[geom]), model.geom_size[geom]
    robots = model.geom_group[geom] not in (SCENE_GROUP, DECORATION_GROUP)
    if robots and kind != kinds.mjGEOM_MESH:
        return None  # the robot's collision shapes lie inside its meshes
    rgba = model.geom_rgba[geom] if model.geom_matid[geom] < 0 else model.mat_rgba[model.geom_matid[geom]]
    color = [int(255 * part) for part in rgba]
    solid: Any = {"colors": [color], "fill_mode": "solid"}
    if kind == kinds.mjGEOM_MESH:
        mesh = model.geom_dataid[geom]
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        face, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        return rr.Mesh3D(
            vertex_positions=model.mesh_vert[first : first + count],
            triangle_indices=model.mesh_face[face : face + faces],
            albedo_factor=color,
        )
    if kind == kinds.mjGEOM_BOX:
        return rr.Boxes3D(half_sizes=[size], **solid)
    if kind in (kinds.mjGEOM_SPHERE, kinds.mjGEOM_ELLIPSOID):
        half = [size[0]] * 3 if kind == kinds.mjGEOM_SPHERE else size
        return rr.Ellipsoids3D(half_sizes=[half], **solid)
    if kind == kinds.mjGEOM_CYLINDER:
        return rr.Cylinders3D(lengths=[2.0 * size[1]], radii=[size[0]], **solid)
    if kind == kinds.mjGEOM_CAPSULE:
        return rr.Capsules3D(lengths=[2.0 * size[1]], radii=[size[0]], translations=[(0.0, 0.0, -size[1])], **solid)
    return None
