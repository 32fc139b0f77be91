"""What runs next to the GPU, inside the user's Python: only domain, the standard library, torch and triton."""
