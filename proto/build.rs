//! Generates the Rust of both protocols. Needs `protoc` (Debian: protobuf-compiler).
fn main() -> Result<(), Box<dyn std::error::Error>> {
    tonic_prost_build::configure()
        .codec_path("crate::codec::SmallCodec")
        .compile_protos(&["agent.proto", "supervisor.proto"], &["."])?;
    Ok(())
}
