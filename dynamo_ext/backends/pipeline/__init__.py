"""From a captured graph to a callable: normalise, fold, freeze, partition, lower, verify, run."""
