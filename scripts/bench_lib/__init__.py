"""Measuring a real daemon beside the floor of the machine, in the same run (DESIGN 9). See scripts/bench."""
