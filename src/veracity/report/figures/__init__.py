"""Figures of the report: for each, first its data, then its drawing, so that neither needs the other to be tested."""
