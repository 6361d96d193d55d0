"""The laboratory: whole studies with simulated people."""

from truthful.simulation.cast import read_agents
from truthful.simulation.rates import rates
from truthful.simulation.record import Simulation
from truthful.simulation.simulation import simulate

__all__ = ["Simulation", "rates", "read_agents", "simulate"]
