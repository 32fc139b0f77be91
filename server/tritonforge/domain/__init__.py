"""The nouns that every room shares, their codec, and the messages to a worker. Standard library only, Python ≥ 3.10."""
