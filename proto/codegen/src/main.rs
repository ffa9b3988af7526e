//! Writes the Rust of the `.proto` files into a folder: `codegen PROTO_DIR OUT_DIR`.
//! The result is committed, so that a build needs neither this nor protoc; a test
//! runs it into a scratch folder and compares.

use std::path::Path;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(protos), Some(out)) = (args.next(), args.next()) else {
        return Err("usage: codegen PROTO_DIR OUT_DIR".into());
    };
    let root = Path::new(&protos);
    let files = ["common", "execd", "manager"].map(|n| format!("innkeeper/v1/{n}.proto"));
    let set = protox::compile(&files, [root])?;
    std::fs::create_dir_all(&out)?;
    tonic_prost_build::configure()
        .out_dir(&out)
        .bytes(".")
        .compile_fds(set)?;
    Ok(())
}
