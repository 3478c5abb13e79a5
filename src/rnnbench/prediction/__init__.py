"""Which runtime answers fastest with a model, and whether it still computes the same function.

measure.measure       the job → the turns of each runtime
results.results_of    turns → medians, percentiles and ratios: `results.Results`
"""
