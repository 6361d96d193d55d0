import numpy as np

from truthful.beliefs.laws import chebyshev_coefficients, chebyshev_extrema, chebyshev_nodes, monomials


def test_nodes_are_the_zeros_of_the_polynomial_whose_extrema_lie_between_them() -> None:
    order = 8
    last = np.polynomial.Chebyshev.basis(order)
    np.testing.assert_allclose(last(chebyshev_nodes(order)), 0, atol=1e-14)
    np.testing.assert_allclose(np.abs(last(chebyshev_extrema(order))), 1, atol=1e-14)
    assert len(chebyshev_extrema(order)) == order + 1


def test_a_polynomial_is_found_from_its_values() -> None:
    given = np.array([0.5, -1.0, 2.0, 0.0, 3.0])
    x = chebyshev_nodes(7)
    np.testing.assert_allclose(monomials(np.polynomial.Polynomial(given)(x)), [*given, 0, 0], atol=1e-13)
    np.testing.assert_allclose(
        chebyshev_coefficients(np.polynomial.Chebyshev(given)(x)), [*given, 0, 0], atol=1e-14
    )


def test_both_work_along_any_axis() -> None:
    values = np.random.default_rng(1).random((3, 6, 2))
    for row in range(3):
        for column in range(2):
            alone = monomials(values[row, :, column])
            np.testing.assert_allclose(monomials(values, axis=1)[row, :, column], alone, rtol=1e-13)


def test_rounding_noise_in_high_coefficients_is_not_magnified() -> None:
    x = chebyshev_nodes(16)
    coefficients = monomials(1 / 4 - x / 1e6)
    np.testing.assert_array_equal(coefficients[2:], 0)
