"""The laboratory: whole studies with simulated people."""

from truthful.simulation.cast import read_agents
from truthful.simulation.rates import rates
from truthful.simulation.simulation import AskedSimulation, ShareSimulation, Simulation, simulate

__all__ = ["AskedSimulation", "ShareSimulation", "Simulation", "rates", "read_agents", "simulate"]
