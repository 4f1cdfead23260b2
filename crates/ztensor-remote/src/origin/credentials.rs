//! Credentials of AWS profiles. The library below us reads the environment, web identities and roles of machines, but not `~/.aws`: keys in the
//! credentials file are read here, and for the rest (single sign-on, assumed roles) AWS's own command is asked.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use object_store::aws::AmazonS3ConfigKey;

use crate::options::StorageOptions;

/// What the chosen profile says; nothing where there is no profile.
pub(super) fn aws_profile(options: &StorageOptions) -> Vec<(AmazonS3ConfigKey, String)> {
    let named = options.first(&["profile", "profile_name", "aws_profile"]).map(str::to_string);
    let named = named.or_else(|| std::env::var("AWS_PROFILE").ok()).filter(|name| !name.is_empty());
    let profile = named.clone().unwrap_or_else(|| "default".into());
    let mut found = stored(&profile);
    let has_keys = found.iter().any(|(key, _)| *key == AmazonS3ConfigKey::SecretAccessKey);
    if !has_keys && (named.is_some() || file("AWS_CONFIG_FILE", "config").is_some_and(|path| path.exists())) {
        found.extend(exported(&profile));
    }
    found
}

/// Keys and region from the files of the AWS tools.
fn stored(profile: &str) -> Vec<(AmazonS3ConfigKey, String)> {
    let read =
        |path: Option<PathBuf>| path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    let mut found = Vec::new();
    let credentials = read(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"));
    let settings = read(file("AWS_CONFIG_FILE", "config"));
    let section = if profile == "default" { profile.to_string() } else { format!("profile {profile}") };
    for (name, value) in section_of(&settings, &section).chain(section_of(&credentials, profile)) {
        let key = match name {
            "aws_access_key_id" => AmazonS3ConfigKey::AccessKeyId,
            "aws_secret_access_key" => AmazonS3ConfigKey::SecretAccessKey,
            "aws_session_token" => AmazonS3ConfigKey::Token,
            "region" => AmazonS3ConfigKey::Region,
            "endpoint_url" => AmazonS3ConfigKey::Endpoint,
            _ => continue,
        };
        found.push((key, value.to_string()));
    }
    found
}

fn file(variable: &str, name: &str) -> Option<PathBuf> {
    let home = || std::env::var_os("HOME").or_else(|| std::env::var_os("USERPROFILE"));
    std::env::var_os(variable)
        .map(PathBuf::from)
        .or_else(|| Some(PathBuf::from(home()?).join(".aws").join(name)))
}

/// The pairs of one section of an INI file.
fn section_of<'a>(text: &'a str, section: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    let mut inside = false;
    text.lines().filter_map(move |line| {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            inside = name.trim() == section;
            return None;
        }
        if !inside || line.starts_with(['#', ';']) {
            return None;
        }
        line.split_once('=').map(|(name, value)| (name.trim(), value.trim()))
    })
}

/// Credentials as `aws configure export-credentials` gives them, if that command is there.
fn exported(profile: &str) -> Vec<(AmazonS3ConfigKey, String)> {
    let asked = Command::new("aws")
        .args(["configure", "export-credentials", "--format", "process", "--profile", profile])
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    let Ok(answer) = asked else { return Vec::new() };
    let Ok(said) = serde_json::from_slice::<serde_json::Value>(&answer.stdout) else { return Vec::new() };
    let fields = [
        ("AccessKeyId", AmazonS3ConfigKey::AccessKeyId),
        ("SecretAccessKey", AmazonS3ConfigKey::SecretAccessKey),
        ("SessionToken", AmazonS3ConfigKey::Token),
    ];
    fields.into_iter().filter_map(|(name, key)| Some((key, said.get(name)?.as_str()?.to_string()))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_of_profiles_are_told_apart() {
        let text = "# keys\n[default]\na = 1\n\n[ other ]\na=2\n; b = 3\nb = x = y\n";
        assert_eq!(section_of(text, "default").collect::<Vec<_>>(), [("a", "1")]);
        assert_eq!(section_of(text, "other").collect::<Vec<_>>(), [("a", "2"), ("b", "x = y")]);
        assert_eq!(section_of(text, "none").count(), 0);
    }
}
