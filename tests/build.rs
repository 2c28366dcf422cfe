//! Generates the part of etcd's API that simulated members serve. Needs `protoc` (Debian: protobuf-compiler).
fn main() -> Result<(), Box<dyn std::error::Error>> {
    tonic_prost_build::configure()
        .build_client(false)
        .compile_protos(&["src/fleet/etcd.proto"], &["src/fleet"])?;
    Ok(())
}
