"""The VER training core: any `gymnasium.Env` in, a trained policy out. It knows no robot.

Nothing is imported here: environment workers load this package and must not pay for torch.
"""
