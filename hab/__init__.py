"""The Home Assistant Benchmark: apartments, the Fetch robot, episodes, sensors and measures."""
