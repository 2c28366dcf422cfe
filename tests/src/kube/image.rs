//! Images of one layer, written as an archive that `ctr images import` reads, without an image builder.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{
    components::{Binaries, ETCD},
    paths::hex,
};

/// Writes an image's archive once more under another name.
pub fn renamed(archive: &Path, name: &str, to: &Path) -> Result<()> {
    let mut from = tar::Archive::new(File::open(archive)?);
    let mut tar = tar::Builder::new(BufWriter::new(File::create(to)?));
    for entry in from.entries()? {
        let mut entry = entry?;
        let path = entry.path()?.into_owned();
        let mut header = entry.header().clone();
        if path != Path::new("manifest.json") {
            tar.append_data(&mut header, path, entry)?;
            continue;
        }
        let mut text = String::new();
        entry.read_to_string(&mut text)?;
        let mut manifest: Value = serde_json::from_str(&text)?;
        manifest[0]["RepoTags"] = json!([name]);
        let content = serde_json::to_vec(&manifest)?;
        header.set_size(content.len() as u64);
        tar.append_data(&mut header, path, &content[..])?;
    }
    tar.into_inner()?.flush()?;
    Ok(())
}

/// What goes into an image.
#[derive(Clone, Debug, Default)]
pub struct Image {
    /// Its full name with tag, such as `quay.io/coreos/etcd:v3.6.16`.
    pub name: String,
    /// Files: where they are now, and their absolute path in the image. All of mode 0755, owned by root.
    pub files: Vec<(PathBuf, String)>,
    /// Small files: their content, and their absolute path in the image. All of mode 0644, owned by root.
    pub texts: Vec<(String, String)>,
    /// Symbolic links: what they point at, and their absolute path in the image.
    pub links: Vec<(String, String)>,
    /// Folders to be there besides those of the files, with their modes.
    pub folders: Vec<(String, u32)>,
    /// The `Cmd` of the configuration.
    pub command: Vec<String>,
    /// The `Entrypoint` of the configuration.
    pub entrypoint: Vec<String>,
    /// The working folder.
    pub working_dir: String,
}

impl Image {
    /// Stands in for the official etcd image: same name, same paths, and as little else (no shell).
    pub fn etcd(version: &str) -> Result<Self> {
        let path = |program: &str| format!("/usr/local/bin/{program}");
        Ok(Self {
            name: format!("quay.io/coreos/etcd:v{version}"),
            files: vec![
                (Binaries::etcd(version)?, path("etcd")),
                (Binaries::etcdctl(version)?, path("etcdctl")),
                (Binaries::etcdutl(version)?, path("etcdutl")),
            ],
            texts: accounts(),
            folders: vec![("/tmp".into(), 0o1777), ("/var/lib/etcd".into(), 0o755)],
            command: vec![path("etcd")],
            working_dir: "/var/lib/etcd".into(),
            ..Self::default()
        })
    }

    /// All images that every node of a local cluster has.
    pub fn built_in() -> Result<Vec<Self>> {
        let mut images = ETCD
            .iter()
            .map(|version| Self::etcd(version))
            .collect::<Result<Vec<_>>>()?;
        images.push(Self {
            name: "localhost/pause:1".into(),
            files: vec![(Binaries::pause()?, "/pause".into())],
            entrypoint: vec!["/pause".into()],
            ..Self::default()
        });
        images.push(Self {
            name: "localhost/coredns:1".into(),
            files: vec![(Binaries::coredns()?, "/coredns".into())],
            texts: accounts(),
            folders: vec![("/tmp".into(), 0o1777)],
            entrypoint: vec!["/coredns".into()],
            ..Self::default()
        });
        images.push(Self::toolbox());
        Ok(images)
    }

    /// A shell with the usual small tools, for Pods that look at the cluster from inside.
    fn toolbox() -> Self {
        let tools = [
            "sh", "cat", "dd", "df", "kill", "ls", "nc", "nslookup", "rm", "sleep", "sync", "true", "wget",
        ];
        Self {
            name: "localhost/busybox:1".into(),
            files: vec![("/usr/bin/busybox".into(), "/bin/busybox".into())],
            texts: accounts(),
            links: tools.map(|tool| ("busybox".into(), format!("/bin/{tool}"))).into(),
            folders: vec![("/tmp".into(), 0o1777)],
            command: vec!["/bin/sh".into()],
            ..Self::default()
        }
    }

    /// Writes the archive. The same content gives the same bytes.
    pub fn write(&self, archive: &Path) -> Result<()> {
        let layer_path = archive.with_extension("layer");
        let layer = self.write_layer(&layer_path)?;
        let config = serde_json::to_vec(&self.config(&layer))?;
        let config_name = format!("{}.json", hex(&Sha256::digest(&config)));
        let manifest = json!([{ "Config": config_name, "RepoTags": [self.name], "Layers": [format!("{layer}.tar")] }]);

        let mut tar = tar::Builder::new(BufWriter::new(File::create(archive)?));
        append(&mut tar, &config_name, 0o644, config.len() as u64, &config[..])?;
        let content = File::open(&layer_path)?;
        append(
            &mut tar,
            &format!("{layer}.tar"),
            0o644,
            content.metadata()?.len(),
            content,
        )?;
        let manifest = serde_json::to_vec(&manifest)?;
        append(&mut tar, "manifest.json", 0o644, manifest.len() as u64, &manifest[..])?;
        tar.into_inner()?.flush()?;
        fs::remove_file(&layer_path)?;
        Ok(())
    }

    /// Returns the layer's SHA-256 in hexadecimal.
    fn write_layer(&self, path: &Path) -> Result<String> {
        let mut tar = tar::Builder::new(BufWriter::new(File::create(path)?));
        let targets = self.files.iter().chain(&[]).map(|(_, path)| path.as_str());
        let targets = targets.chain(self.texts.iter().chain(&self.links).map(|(_, path)| path.as_str()));
        let mut folders: BTreeSet<(&str, u32)> = BTreeSet::new();
        for target in targets.chain(self.folders.iter().map(|(path, _)| path.as_str())) {
            folders.extend(parents(target).map(|folder| (folder, 0o755)));
        }
        for (folder, mode) in &self.folders {
            folders.retain(|(other, _)| other != folder);
            folders.insert((folder, *mode));
        }
        for (folder, mode) in folders {
            let mut header = header(mode, 0);
            header.set_entry_type(tar::EntryType::Directory);
            tar.append_data(&mut header, format!("{}/", folder.trim_start_matches('/')), &[][..])?;
        }
        for (source, target) in &self.files {
            let file = File::open(source).with_context(|| {
                format!(
                    "{} of the image {} is not there; run tests/kube/setup.sh",
                    source.display(),
                    self.name
                )
            })?;
            append(
                &mut tar,
                target.trim_start_matches('/'),
                0o755,
                file.metadata()?.len(),
                file,
            )?;
        }
        for (content, target) in &self.texts {
            append(
                &mut tar,
                target.trim_start_matches('/'),
                0o644,
                content.len() as u64,
                content.as_bytes(),
            )?;
        }
        for (to, link) in &self.links {
            let mut header = header(0o777, 0);
            header.set_entry_type(tar::EntryType::Symlink);
            tar.append_link(&mut header, link.trim_start_matches('/'), to)?;
        }
        tar.into_inner()?.flush()?;
        let mut hash = Sha256::new();
        std::io::copy(&mut File::open(path)?, &mut hash)?;
        Ok(hex(&hash.finalize()))
    }

    fn config(&self, layer: &str) -> Value {
        json!({
            "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
            "os": "linux",
            "config": {
                "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
                "Entrypoint": self.entrypoint,
                "Cmd": self.command,
                "WorkingDir": self.working_dir,
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{layer}")] },
        })
    }
}

/// The users that an image without a distribution has all the same.
fn accounts() -> Vec<(String, String)> {
    vec![
        (
            "root:x:0:0:root:/root:/sbin/nologin\nnobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n\
             nonroot:x:65532:65532:nonroot:/tmp:/sbin/nologin\n"
                .into(),
            "/etc/passwd".into(),
        ),
        (
            "root:x:0:\nnobody:x:65534:\nnonroot:x:65532:\n".into(),
            "/etc/group".into(),
        ),
    ]
}

fn parents(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/')
        .map(|(at, _)| &path[..at])
        .filter(|folder| !folder.is_empty())
}

fn header(mode: u32, size: u64) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_mode(mode);
    header.set_size(size);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(0);
    header
}

fn append(tar: &mut tar::Builder<impl Write>, name: &str, mode: u32, size: u64, data: impl Read) -> Result<()> {
    tar.append_data(&mut header(mode, size), name, data)
        .with_context(|| format!("cannot write {name} to the archive"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_archive_has_the_files_under_the_digests_that_it_names() {
        let folder = std::env::temp_dir().join(format!("image-test-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let image = Image {
            name: "localhost/x:1".into(),
            texts: vec![("hello".into(), "/etc/greeting".into())],
            folders: vec![("/tmp".into(), 0o1777)],
            ..Image::default()
        };
        let archive = folder.join("x.tar");
        image.write(&archive).unwrap();
        let mut tar = tar::Archive::new(File::open(&archive).unwrap());
        let mut contents = std::collections::BTreeMap::new();
        for entry in tar.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            contents.insert(entry.path().unwrap().to_string_lossy().into_owned(), content);
        }
        let manifest: Value = serde_json::from_slice(&contents["manifest.json"]).unwrap();
        let layer = &contents[manifest[0]["Layers"][0].as_str().unwrap()];
        let config: Value = serde_json::from_slice(&contents[manifest[0]["Config"].as_str().unwrap()]).unwrap();
        let digest = format!("sha256:{}", hex(&Sha256::digest(layer)));
        assert_eq!(config["rootfs"]["diff_ids"][0], digest);
        let mut layer = tar::Archive::new(&layer[..]);
        let names: Vec<_> = layer
            .entries()
            .unwrap()
            .map(|e| e.unwrap().path().unwrap().into_owned())
            .collect();
        assert_eq!(names, ["etc/", "tmp/", "etc/greeting"].map(PathBuf::from));
        fs::remove_dir_all(&folder).unwrap();
    }
}
