package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"reflect"
	"strings"
	"testing"
	"time"
)

// vectors are every step of the format for fixed inputs.
type vectors struct {
	Hex         map[string]string `json:"hex"`
	Body        string            `json:"body"`
	Identity    string            `json:"identity"` // made for this file only
	KeyFileText string            `json:"key_file_text"`
	Entries     []string          `json:"entries"`
	Roots       []string          `json:"roots"`
	VKey        string            `json:"vkey"`
	Checkpoint  string            `json:"checkpoint"`
}

// makeVectors computes the vectors. The age file is random, so it is given.
func makeVectors(t *testing.T, identity string, keyFile []byte) *vectors {
	v := &vectors{Hex: map[string]string{}, Body: `{"v":1,"k":"intent","call":"c1"}`, Identity: identity}
	put := func(name string, b []byte) { v.Hex[name] = hex.EncodeToString(b) }
	secret := [32]byte(bytes.Repeat([]byte{0x53}, 32))
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{0x6b}, 32))
	id := ID(bytes.Repeat([]byte{0xaa}, 16))
	node, err := nodeKeyFrom("", key.Public().(ed25519.PublicKey), key)
	must(t, err)
	h := &header{strand: id, signer: [32]byte(key[32:]), keyCommit: keyCommit(secret), keyFile: sha(keyFile),
		recipients: sha([]byte("age1example\n")), origin: node.signer.Name(), created: 1800000000}
	v.KeyFileText = keyFileText(id, 0, secret)
	put("secret", secret[:])
	put("seed", key.Seed())
	put("signer", key[32:])
	put("strand", id[:])
	put("key_file", keyFile)
	put("key_commit", h.keyCommit[:])
	frame := appendFrame(nil, frameHeader, h.marshal())
	put("header_frame", frame)
	st := state{}.link(frame)
	put("c1", st.c[:])
	put("commit1", st.appendCommit(nil, id, key))
	r := newRatchet(secret, st.c)
	put("ck0", r.ck[:])
	rk := r.next()
	put("ck1", r.ck[:])
	put("rk0", rk[:])
	frame = appendRecord(nil, rk, st.c, []byte(v.Body))
	put("record_frame", frame)
	st = st.link(frame)
	put("c2", st.c[:])
	put("commit2", st.appendCommit(nil, id, key))
	frame = appendFrame(nil, frameEnd, []byte(endClose))
	put("end_frame", frame)
	st = st.link(frame)
	put("c3", st.c[:])
	put("commit3", st.appendCommit(nil, id, key))
	var tr tree
	for i, e := range []*entry{
		{kind: kindRecipients, hash: h.recipients},
		{kind: kindOpen, strand: id, hash: h.signer, boot: sha([]byte("boot"))},
		{kind: kindHead, strand: id, at: state{1, [32]byte{1}}},
		{kind: kindShred, strand: id, segment: 3, word: "retention"},
		{kind: kindLoss, strand: id, word: "file-removed", since: 1799999999},
		{kind: kindEpoch, oldVKey: node.vkey, vkey: node.vkey},
		{kind: kindClose, strand: id, at: st},
		{kind: kindPrune, strand: id, at: st},
		{kind: kindClock, old: 1800000008, new: 1800000001},
	} {
		e.time = 1800000000 + int64(i)
		if e.kind == kindClock {
			e.time = e.new
		}
		raw := e.marshal()
		tr.add(raw)
		root := tr.root()
		v.Entries = append(v.Entries, string(raw))
		v.Roots = append(v.Roots, hex.EncodeToString(root[:]))
	}
	cp := checkpoint{node.signer.Name(), tr.size, tr.root()}
	msg, err := cp.sign(node.signer)
	must(t, err)
	v.VKey, v.Checkpoint = node.vkey, string(msg)
	return v
}

func TestVectors(t *testing.T) {
	const file = "testdata/vectors.json"
	if *update {
		identity, recipient, err := NewIdentity(true)
		must(t, err)
		r, err := ParseRecipients(recipient)
		must(t, err)
		keyFile, err := sealTo(keyFileText(ID(bytes.Repeat([]byte{0xaa}, 16)), 0, [32]byte(bytes.Repeat([]byte{0x53}, 32))), r.ages...)
		must(t, err)
		out, err := json.MarshalIndent(makeVectors(t, identity, keyFile), "", " ")
		must(t, err)
		must(t, os.WriteFile(file, append(out, '\n'), 0o644))
	}
	b, err := os.ReadFile(file)
	must(t, err)
	var want vectors
	must(t, json.Unmarshal(b, &want))
	keyFile, err := hex.DecodeString(want.Hex["key_file"])
	must(t, err)
	got := makeVectors(t, want.Identity, keyFile)
	if !reflect.DeepEqual(*got, want) {
		for name, x := range got.Hex {
			if want.Hex[name] != x {
				t.Errorf("%s = %s, want %s", name, x, want.Hex[name])
			}
		}
		t.Error("the format changed")
	}
	ids, err := ParseIdentities([]byte(want.Identity), nil)
	must(t, err)
	secret, err := ids.openKey(ID(bytes.Repeat([]byte{0xaa}, 16)), 0, keyFile)
	must(t, err)
	if hex.EncodeToString(secret[:]) != want.Hex["secret"] {
		t.Error("the key file holds another secret")
	}
	if n := len(want.Hex["record_frame"]) / 2; n != 88 {
		t.Errorf("the frame is %d bytes, the specification says 88", n)
	}
}

// TestPrototypeVectors are figures of the design, computed by a program that
// this one shares nothing with: its header was shorter, the rest is the same.
func TestPrototypeVectors(t *testing.T) {
	secret := [32]byte(bytes.Repeat([]byte{0x53}, 32))
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{0x6b}, 32))
	id := ID(bytes.Repeat([]byte{0xaa}, 16))
	kc, kf := keyCommit(secret), sha256.Sum256([]byte("key file stand-in\n"))
	h := fmt.Sprintf("penstock-audit/v1 segment\nstrand %s\nsegment 0\nfirst 0\nprev %s\nsigner %s\nkey-commit %s\nkey-file %s\n", id,
		b64.EncodeToString(make([]byte, 32)), b64.EncodeToString(key[32:]), b64.EncodeToString(kc[:]), b64.EncodeToString(kf[:]))
	st := state{}.link(appendFrame(nil, frameHeader, []byte(h)))
	check := func(what, got, want string) {
		t.Helper()
		if start, end, ok := strings.Cut(want, "…"); got != want && !(ok && strings.HasPrefix(got, start) && strings.HasSuffix(got, end)) {
			t.Errorf("%s = %s, want %s", what, got, want)
		}
	}
	check("c1", b64.EncodeToString(st.c[:]), "waVrry1xwQq6biG04/TIEczlgJ1LD+ieeSgEv3tOL2k=")
	r := newRatchet(secret, st.c)
	check("ck0", hex.EncodeToString(r.ck[:]), "d591ad79…28220")
	rk := r.next()
	check("rk0", hex.EncodeToString(rk[:]), "9d9e6e0c…1eb329f")
	frame := appendRecord(nil, rk, st.c, []byte(`{"v":1,"k":"intent","call":"c1"}`))
	check("tag", hex.EncodeToString(frame[len(frame)-16:]), "27886728006d4437904b8615f9b6aa7b")
	st = st.link(frame)
	check("c2", b64.EncodeToString(st.c[:]), "Vlzol/gZDYKKHKNxNICTGhoSty0jkdhCuPX5BJapGt4=")
	commit := st.appendCommit(nil, id, key)
	check("sig", hex.EncodeToString(commit[48:]), "90c699c9…f803")
}

// TestSecondVerifier lets a verifier that was made from the specification alone
// judge the vectors and every case. It needs python3, and nothing else.
func TestSecondVerifier(t *testing.T) {
	cmd := exec.Command("python3", "testdata/verify.py", "testdata/vectors.json", "testdata/tamper.json", "testdata/log")
	cmd.WaitDelay = time.Second
	var why bytes.Buffer
	cmd.Stderr = &why
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v (this test needs python3)\n%s", err, why.String())
	}
	got := strings.Fields(string(out))
	cases := readFrozen(t).Cases
	if len(got) != len(cases) {
		t.Fatalf("%d verdicts for %d cases\n%s", len(got), len(cases), why.String())
	}
	for i, c := range cases {
		if got[i] != fmt.Sprint(c.Want) {
			t.Errorf("%d %s: exit %s, want %d", c.Case, c.Name, got[i], c.Want)
		}
	}
}
