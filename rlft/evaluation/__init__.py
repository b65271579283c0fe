"""What a policy is worth: metrics, intervals, comparisons, suites, rules of promotion, and why a run did not learn."""
