//! Compiles the protocol files with a pure Rust compiler: no system package is needed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = "../../../proto";
    println!("cargo:rerun-if-changed={root}");
    let files = protox::compile(["rialto/v1/network.proto"], [root])?;
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?);
    let encoded = prost::Message::encode_to_vec(&files);
    std::fs::write(out.join("rialto.bin"), encoded)?;
    tonic_prost_build::configure()
        .extern_path(".rialto.v1.Event", "crate::grpc::event::Event")
        .extern_path(".rialto.v1.Error", "::rialto_carrier::grpc::Error")
        .build_transport(false)
        .compile_fds(files)?;
    let files = protox::compile(["openagents/agent_service.proto"], [root])?;
    std::fs::write(out.join("agent_service.bin"), prost::Message::encode_to_vec(&files))?;
    tonic_prost_build::configure().build_transport(false).compile_fds(files)?;
    Ok(())
}
