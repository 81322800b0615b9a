"""A program of the user's own under several tier configurations: what is run, one run, and what the runs say.

plan -> one_run (as often as asked, by ReFrame) -> answer
"""
