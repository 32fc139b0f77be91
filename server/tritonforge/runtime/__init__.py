"""What production code may import: no dependency, nothing else of ours."""
