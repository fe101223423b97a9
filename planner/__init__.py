"""The task planner and the chain that runs its plans as skills (the TP-SRL agent)."""
