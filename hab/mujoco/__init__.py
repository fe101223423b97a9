"""The embedded simulator: MuJoCo."""
