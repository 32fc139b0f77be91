"""`python -m tritonforge`."""

from tritonforge.cli.main import main

if __name__ == "__main__":
    main()
