//! Turns the protocol's descriptions into Rust, without a compiler outside of cargo.

fn main() -> anyhow::Result<()> {
    println!("cargo::rerun-if-changed=proto");
    let descriptions = protox::compile(["cordum/agent/v1/buspacket.proto"], ["proto"])?;
    let mut build = prost_build::Config::new();
    // Maps in one order: the same packet is the same bytes.
    build.btree_map(["."]);
    build.compile_fds(descriptions)?;
    Ok(())
}
