"""The notation, as data: the paper's symbol, its meaning, its name in formulas and in commands and files.

The documentation, the `truthful symbols` command and readers of the code share this one table.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Symbol:
    """One row of the notation table."""

    paper: str
    meaning: str
    formula: str
    door: str


SYMBOLS: tuple[Symbol, ...] = (
    Symbol("n", "number of players", "n", "players"),
    Symbol("d", "number of features, the intercept included", "d", "dimension"),
    Symbol("x", "verified features of a player, of norm at most 1", "x", "features"),
    Symbol("y", "true response of a player", "y", "response"),
    Symbol("ŷ", "reported response of a player", "y", "report"),
    Symbol("θ", "true coefficients", "theta", "coefficients"),
    Symbol("√B", "bound on the norm of θ (the paper bounds its square by B)", "R", "radius"),
    Symbol("M", "bound on the response noise z", "M", "noise_bound"),
    Symbol("σ²", "variance of the response noise z", "sigma2", "noise_variance"),
    Symbol("√B + M", "bound on a response", "Y", "response_bound"),
    Symbol("γ", "ridge penalty", "gamma", "regularization"),
    Symbol("2ε", "privacy level; always the total (the paper's ε is half of it)", "epsilon", "epsilon"),
    Symbol("a", "base payment", "a", "base_payment"),
    Symbol("b", "weight of the score in a payment", "b", "score_weight"),
    Symbol("p", "what a player's peers predict of her", "p", "peer_prediction"),
    Symbol("q", "what her own report predicts her peers will predict", "q", "own_prediction"),
    Symbol("α", "share of players allowed to misreport", "alpha", "absent_share"),
    Symbol("β", "probability that more misreport", "beta", "failure_probability"),
    Symbol("τ", "privacy cost up to which players are promised truth and gain", "tau", "cost_threshold"),
    Symbol("η", "most that a lie can gain", "eta", "slack"),
    Symbol("–", "largest lie that can pay, as a change of the own prediction", "D", "lie"),
    Symbol("–", "clip level: what others predict is kept in ±c‖x‖, c at most R", "c", "clip"),
    Symbol("–", "public matrix that makes instruments of features, ζ = Tx/max(1, ‖Tx‖)", "T", "transform"),
    Symbol(
        "–", "leverage: how much of what everybody predicts of a player is her own report", "h", "leverage"
    ),
    Symbol("–", "scale of the privacy noise in what others predict of a player", "t", "noise_scale"),
    Symbol("ξ", "relative tolerance on the eigenvalues of XᵀX", "xi", "xi"),
    Symbol("Σ", "second moments of the features, E[x xᵀ]", "Sigma", "design"),
)
