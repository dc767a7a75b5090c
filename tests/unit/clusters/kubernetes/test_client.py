"""Server, token and namespace come from a kubeconfig or a pod's own files; each mistake has a remedy."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from penstock.clusters.kubernetes.client import CredentialPlugin, find_access
from penstock.errors import InvalidInput, MissingRequirement, NotFound


def kubeconfig(path: Path, user: dict[str, Any] | None = None, **cluster: Any) -> Path:
    content = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "lake"}},
            {"name": "there", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", **cluster}}],
        "users": [{"name": "u", "user": user or {"token": "t0ken"}}],
    }
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    return path


def test_the_current_context_is_meant_where_none_is_named(tmp_path: Path) -> None:
    access = find_access(str(kubeconfig(tmp_path / "config")))
    assert (access.server, access.namespace, access.token()) == ("http://127.0.0.1:1", "lake", "t0ken")
    assert not access.in_cluster
    assert find_access(str(tmp_path / "config"), "there").namespace == "default"


def test_the_environment_names_it_before_the_pod_does(tmp_path: Path) -> None:
    config = kubeconfig(tmp_path / "config")
    assert find_access(environment={"KUBECONFIG": f"/nowhere:{config}"}, account=tmp_path).namespace == "lake"


def test_several_files_are_merged_as_kubectl_does_and_paths_belong_to_the_file_that_has_them(tmp_path: Path) -> None:
    contexts, users = tmp_path / "contexts", tmp_path / "more" / "users"
    users.parent.mkdir()
    first = {"contexts": [{"name": "here", "context": {"cluster": "c", "user": "u", "namespace": "first"}}]}
    contexts.write_text(yaml.safe_dump({"current-context": "here", **first}))
    kubeconfig(users, {"tokenFile": "token"})
    (users.parent / "token").write_text("t0ken\n")
    found = find_access(environment={"KUBECONFIG": f"{contexts}:/nowhere:{users}"}, account=tmp_path)
    assert (found.server, found.namespace, found.token()) == ("http://127.0.0.1:1", "first", "t0ken")
    there = find_access(context="there", environment={"KUBECONFIG": f"{contexts}:{users}"}, account=tmp_path)
    assert there.server == "http://127.0.0.1:1", "a context of the second file"


def test_the_first_file_that_names_a_current_context_decides(tmp_path: Path) -> None:
    kubeconfig(tmp_path / "b")
    content = yaml.safe_load((tmp_path / "b").read_text())
    (tmp_path / "a").write_text(yaml.safe_dump({"current-context": "there"}))
    (tmp_path / "b").write_text(yaml.safe_dump(content))
    environment = {"KUBECONFIG": f"{tmp_path / 'a'}:{tmp_path / 'b'}"}
    assert find_access(environment=environment, account=tmp_path).namespace == "default"


def test_one_of_several_files_that_is_damaged_is_named(tmp_path: Path) -> None:
    (tmp_path / "b").write_text("a: {")
    environment = {"KUBECONFIG": f"{kubeconfig(tmp_path / 'a')}:{tmp_path / 'b'}"}
    with pytest.raises(InvalidInput) as refused:
        find_access(environment=environment, account=tmp_path)
    assert refused.value.problem.startswith(f"{tmp_path / 'b'} ")


def test_a_wrong_context_is_refused_with_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(NotFound) as refused:
        find_access(str(kubeconfig(tmp_path / "config")), "production")
    assert "here, there" in refused.value.why
    assert "get-contexts" in refused.value.fix


def test_no_kubeconfig_and_no_pod_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        find_access(environment={"KUBECONFIG": str(tmp_path / "none")}, account=tmp_path)


@pytest.mark.parametrize("text", ["", "[1]", "a: {", "contexts: []", "current-context: a\ncontexts: [{context: {}}]"])
def test_what_is_no_kubeconfig_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "config").write_text(text, encoding="utf-8")
    with pytest.raises(InvalidInput):
        find_access(str(tmp_path / "config"))


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    authority = {"certificate-authority-data": "bm9uZQ=="}
    with pytest.raises(InvalidInput):
        find_access(str(kubeconfig(tmp_path / "config", server="https://127.0.0.1:1", **authority)))


def test_a_token_is_read_anew_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("first\n")
    access = find_access(str(kubeconfig(tmp_path / "config", {"tokenFile": "token"})))
    assert access.token() == "first"
    (tmp_path / "token").write_text("second\n")
    assert access.token() == "second"


def test_an_unreadable_token_is_reported_with_its_path(tmp_path: Path) -> None:
    access = find_access(str(kubeconfig(tmp_path / "config", {"tokenFile": "gone"})))
    with pytest.raises(MissingRequirement) as refused:
        access.token()
    assert str(tmp_path / "gone") in refused.value.why


def plugin(tmp_path: Path, status: dict[str, str]) -> CredentialPlugin:
    """Return a plug-in that counts its runs."""
    program = tmp_path / "plugin.py"
    program.write_text(
        "import json, os, pathlib\n"
        f"asked = pathlib.Path({str(tmp_path / 'asked')!r})\n"
        "asked.write_text((asked.read_text() if asked.exists() else '') + '.')\n"
        "assert json.loads(os.environ['KUBERNETES_EXEC_INFO'])['kind'] == 'ExecCredential'\n"
        f"print(json.dumps({{'status': {json.dumps(status)}}}))\n",
        encoding="utf-8",
    )
    return CredentialPlugin(
        {"apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": [str(program)]}
    )


def test_a_plug_in_is_asked_again_only_near_the_end_of_its_token(tmp_path: Path) -> None:
    lasting = plugin(tmp_path, {"token": "a", "expirationTimestamp": "2099-01-01T00:00:00Z"})
    assert (lasting.token(), lasting.token()) == ("a", "a")
    assert (tmp_path / "asked").read_text() == "."
    passing = plugin(tmp_path, {"token": "b", "expirationTimestamp": "2001-01-01T00:00:00Z"})
    assert (passing.token(), passing.token()) == ("b", "b")
    assert (tmp_path / "asked").read_text() == "..."


def test_a_plug_in_that_fails_says_nothing_of_what_it_printed() -> None:
    failing = CredentialPlugin(
        {"command": sys.executable, "args": ["-c", "print('s3cret')"], "installHint": "install it"}
    )
    with pytest.raises(MissingRequirement) as refused:
        failing.token()
    assert "s3cret" not in str(refused.value)
    assert refused.value.fix == "install it"
