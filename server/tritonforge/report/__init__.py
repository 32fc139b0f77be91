"""Nouns → text, JSON and other formats."""
