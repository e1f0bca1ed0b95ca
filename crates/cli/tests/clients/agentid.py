"""The package's client of registrars, `openagents.agentid`: a node is one."""

from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from openagents.agentid import client as agentid
from openagents.agentid.exceptions import (
    AgentIDAuthenticationError,
    AgentIDConnectionError,
    AgentIDNotFoundError,
    AgentIDSignatureError,
)
from row import refused, run


def private(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def public(key):
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


async def main(row, url, locked):
    keys = {
        "RS256": rsa.generate_private_key(65537, 2048),
        "Ed25519": ed25519.Ed25519PrivateKey.generate(),
        "ES256": ec.generate_private_key(ec.SECP256R1()),
    }
    async with agentid.AgentIDVerifier(endpoint=url) as client:
        names = {algorithm: f"agent-{algorithm.lower()}" for algorithm in keys}
        with row.call("claim_agent_id"):
            for algorithm, key in keys.items():
                made = await client.claim_agent_id_async(names[algorithm], public(key))
                assert made.agent_name == names[algorithm] and made.serial and made.status == "active", made
        with row.call("claim_agent_id: taken"), refused(AgentIDConnectionError):
            await client.claim_agent_id_async("AGENT-RS256", public(keys["RS256"]))
        with row.call("claim_agent_id: without an account"):
            with refused(AgentIDAuthenticationError):
                async with agentid.AgentIDVerifier(endpoint=locked) as other:
                    await other.claim_agent_id_async("somebody", public(keys["RS256"]))
        with row.call("get_agent_info"):
            for algorithm, name in names.items():
                info = await client.get_agent_info_async(name)
                assert (info.agent_name, info.status, info.algorithm) == (name, "active", algorithm), info
                assert info.public_key_pem.strip() == public(keys[algorithm]).strip()
        with row.call("get_agent_info: unknown"), refused(AgentIDNotFoundError):
            await client.get_agent_info_async("nobody-here")
        with row.call("validate"):
            for form in ("agent-rs256", "openagents:agent-rs256", "did:openagents:agent-rs256"):
                assert (await client.validate_async(form)).verified, form
            assert not (await client.validate_async("openagents:nobody-here")).verified
        tokens = {}
        with row.call("get_token"):
            for algorithm, key in keys.items():
                async with agentid.AgentIDAuth(
                    names[algorithm], private_key_pem=private(key), algorithm=algorithm, endpoint=url
                ) as auth:
                    token = await auth.get_token_async()
                assert (token.token_type.lower(), token.expires_in, token.verification_level) == ("bearer", 3600, 2)
                tokens[algorithm] = token.access_token
        with row.call("get_token: another key"):
            stranger = agentid.AgentIDAuth(
                "agent-ed25519", private_key_pem=private(ed25519.Ed25519PrivateKey.generate()), algorithm="Ed25519", endpoint=url
            )
            async with stranger as auth:
                with refused(AgentIDSignatureError):
                    await auth.get_token_async()
        with row.call("request_challenge: unknown"), refused(AgentIDNotFoundError):
            await client.request_challenge_async("nobody-here", algorithm="RS256")
        with row.call("verify_token"):
            for algorithm, token in tokens.items():
                said = await client.verify_token_async(token)
                assert said.valid and said.agent_name == names[algorithm] and said.verification_level == 2, said
                assert said.expires_at is not None
            bad = await client.verify_token_async(tokens["RS256"][:-4] + "AAAA")
            assert not bad.valid and bad.reason, bad
        with row.call("resolve_did"):
            for algorithm, name in names.items():
                document = await client.resolve_did_async(f"did:openagents:{name}")
                assert document.id == f"did:openagents:{name}" and document.agent_name == name
                assert document.authentication == [document.verification_method[0].id]
                assert document.verification_method[0].public_key_pem.strip() == public(keys[algorithm]).strip()
        with row.call("resolve_did: unknown"), refused(AgentIDNotFoundError):
            await client.resolve_did_async("did:openagents:nobody-here")


run(main)
