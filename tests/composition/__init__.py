"""Features in combination: every pair of a layer, combinator, policy, approval, budget, store and way of running."""
