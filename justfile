# Recipes for everyday work; `just` lists them.

# What can be done here
default:
    @just --list

# Every test of every crate, doc tests and examples included
test:
    cargo test --workspace

# A network on another backend of Burn (takes minutes to build)
test-backends:
    cargo test -p hwa-nn --features ndarray --test standard another_backend

# Training in several processes (needs Open MPI and libclang)
test-mpi:
    cargo test --workspace --features hwa/mpi --test mpi -- --ignored --test-threads 1

# Format, lints and documentation: all without a warning
check:
    cargo fmt --all --check
    cargo clippy --workspace --all-targets -- -D warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps

# The book, into docs/book
book:
    mdbook build docs

# hwa beside PyTorch in turn, into results/
bench-peers *arguments:
    peers/run {{arguments}}

# Averages of checkpoints beside PyTorch, into results/; needs PEERS_VENV, with safetensors
bench-average *arguments:
    cargo build --release --locked
    "$PEERS_VENV/bin/python" peers/average.py {{arguments}}

# What continuous integration runs
ci:
    .ci/run
