//! Compiles the protocol files with a pure Rust compiler: no system package is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = "../../../proto";
    println!("cargo:rerun-if-changed={root}");
    let files = protox::compile(["rialto/v1/network.proto"], [root])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    let encoded = prost::Message::encode_to_vec(&files);
    std::fs::write(out.join("rialto.bin"), encoded)?;
    // Payload and metadata stay in the block they were received in.
    let fields = [".rialto.v1.Event.payload", ".rialto.v1.Event.metadata"];
    fields
        .iter()
        .fold(tonic_prost_build::configure(), |c, field| c.bytes(field))
        .build_transport(false)
        .compile_fds(files)?;
    Ok(())
}
