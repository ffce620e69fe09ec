"""The published protocols, each as a few lines of assembly that write a run folder and a report."""
