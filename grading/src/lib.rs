//! SWE-bench rows, predictions, log parsers, verdicts and reports.
