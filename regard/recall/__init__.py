"""Recall: what a model knows of people, how sure it is, and where it has it from."""
