"""The collector: stores, groups, diagnoses and answers."""
