"""A server of a saved explainer: pages, explanations and checks without the model."""

from __future__ import annotations

from pathlib import Path

from server_examples import DENIED, build_demo, open_client

from ironrule.server.served_model import ServedModel


def test_a_saved_explainer_is_served_and_what_it_explains_is_checked_against_its_file(tmp_path: Path) -> None:
    demo = build_demo().explainer
    served = ServedModel.from_saved_file(demo.save(tmp_path / "credit.ironrule"), "credit.ironrule")
    with open_client(served, tmp_path) as client:
        for page in ("/", "/overview", "/applicants", "/check", "/batches"):
            assert client.get(page, follow_redirects=True).status_code == 200, page
        explanation = client.post("/api/explain", json={"row": DENIED}).json()["document"]
        assert explanation["rules"][0]["verdict"]["kind"] == "proven"
        assert explanation["confirmed_by_model"] is False
        checked = client.post("/api/check", json={"explanation": explanation}).json()
        assert checked["status"] == "proven"
        assert any("normal form in the saved file" in note for note in checked["notes"])
        narrow = {"row": DENIED, "where": ["cf.age_in_years >= 20"]}
        document = client.post("/api/explain", json=narrow).json()["document"]
        assert document["constraints"] == narrow["where"]
        assert client.post("/api/check", json={"explanation": document}).json()["status"] == "proven"
