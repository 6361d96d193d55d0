"""The planner: given enough of players, budget, accuracy, privacy and lie size, it solves for the rest.

Goals ──solve_numbers, solve_shares, solve_asked──▶ Solution, or Infeasible with what would help
"""

from truthful.planner.goals import Goals
from truthful.planner.planning import Infeasible, Remedy, Solution, Worth, worth

__all__ = ["Goals", "Infeasible", "Remedy", "Solution", "Worth", "worth"]
