"""Parallel Q-Learning (Li et al. 2023) and its sequential baselines: the off-policy trainer beside `ver_core`, on the
same environment workers. It knows no robot.

Nothing is imported here: environment workers load this package and must not pay for torch.
"""
