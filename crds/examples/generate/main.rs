//! Writes all that is generated from the API types: `deploy/crds/*.yaml` and `docs/api.md`.
//!
//! `cargo run -p crds --example generate`

mod files;
mod reference;

use std::error::Error;
use std::fs;

fn main() -> Result<(), Box<dyn Error>> {
    let root = files::workspace();
    for (path, content) in files::generated()? {
        let path = root.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(&path, content)?;
        println!("{}", path.display());
    }
    Ok(())
}
