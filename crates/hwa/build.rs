//! Records the commit that the binary was built from.

use std::process::Command;

fn main() {
    let git = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = git.ok().filter(|out| out.status.success()).map(|out| out.stdout);
    let commit = commit.and_then(|bytes| String::from_utf8(bytes).ok());
    let commit = commit.as_deref().map_or("unknown", str::trim);
    println!("cargo::rustc-env=HWA_COMMIT={commit}");
    println!("cargo::rerun-if-changed=../../.git/logs/HEAD");
}
