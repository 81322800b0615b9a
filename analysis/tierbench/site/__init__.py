"""The machine at hand: where the suite and the programs are, and its site file, written, read and checked."""
