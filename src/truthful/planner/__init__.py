"""The planner: any sufficient few of players, budget, accuracy, privacy and lie size, solved for the rest.

Goals ──answer──▶ Answer (the best Solution, and those it was chosen from), or Infeasible with what would help
"""

from truthful.planner.goals import Goals
from truthful.planner.number_planning import Answer, Infeasible, Remedy, Worth, answer, worth

__all__ = ["Answer", "Goals", "Infeasible", "Remedy", "Worth", "answer", "worth"]
