"""Training: the run's configuration, the loop, schedules, checkpoints and the log."""
