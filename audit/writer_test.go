package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestRoundTrip(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "c1")
	call(t, w, "c2")
	must(t, w.Diagnostic([]byte(`{"v":1,"k":"note","call":"c2"}`)))
	l.want(Unanchored, "1 live")
	l.close(w)
	l.want(Unanchored, "1 closed")
	equal(t, l.bodies(), []string{string(intentBody("c1")), string(outcomeBody("c1")), string(intentBody("c2")), string(outcomeBody("c2")),
		`{"v":1,"k":"note","call":"c2"}`})
	r := l.verify(func(o *VerifyOptions) {
		o.VKey, o.Anchors = l.vkey(), [][]byte{l.anchor()}
		o.AllSignatures, o.Recipients = true, l.recipients
	})
	wantVerdict(t, r, Verified, "2 complete")
}

func TestManyCallersShareCommits(t *testing.T) {
	l := newTestLog(t)
	w := l.open(func(c *Config) { c.SegmentBytes = 20 << 10 })
	var wg sync.WaitGroup
	for g := range 64 {
		wg.Go(func() {
			for i := range 5 {
				call(t, w, fmt.Sprintf("c%d.%d", g, i))
			}
		})
	}
	wg.Wait()
	s := w.Stats()
	if s.Open != 0 || s.Refused != 0 {
		t.Errorf("stats %+v", s)
	}
	l.close(w)
	r := l.verify(nil)
	wantVerdict(t, r, Unanchored, "320 complete")
	if r.Segments < 2 {
		t.Errorf("%d segments, want several", r.Segments)
	}
	if commits := w.Stats().Commits; commits >= 640 {
		t.Errorf("%d commits for 640 records: they do not share", commits)
	}
}

// Under a load that never ends, syncs and rotations still happen.
func TestLoadStarvesNothing(t *testing.T) {
	l := newTestLog(t)
	var w *Writer
	fed, through := 0, make(chan struct{})
	note := []byte(`{"v":1,"k":"note","call":""}`)
	disk := newHookDisk(t, l.dir, func(op, name string, _ []byte) error {
		if op == "write" && strings.HasSuffix(name, ".seg") && w != nil && fed < 1000 {
			if fed++; fed == 1000 {
				close(through)
			}
			w.Append(note, Written) // so there is always one more
		}
		return nil
	})
	w = l.open(func(c *Config) { c.Disk, c.SegmentBytes = disk, 5000 })
	r, err := w.Append(note, Durable)
	must(t, err)
	_, err = r.Wait(context.Background())
	must(t, err)
	s := w.Stats()
	<-through
	l.close(w)
	if s.Records > 500 || w.Stats().Segments < 10 {
		t.Errorf("the sync came after %d records, %d segments in the end", s.Records, w.Stats().Segments)
	}
	l.want(Unanchored, "1 closed")
}

// bubble runs a test with a fake clock on a disk that the test controls.
func bubble(t *testing.T, test func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer)) {
	l := newTestLog(t)
	disk := newSwitchboard()
	hooks := newHookDisk(t, l.dir, disk.hook)
	synctest.Test(t, func(t *testing.T) {
		l.t = t
		test(t, l, disk, func(change func(*Config)) *Writer {
			return l.open(func(c *Config) {
				c.Disk, c.Deadline = hooks, 0
				if change != nil {
					change(c)
				}
			})
		})
	})
}

func wantErr(t testing.TB, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("error %v, want %v", err, want)
	}
}

func TestFrozenSyncRefusesInTime(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(func(c *Config) { c.Deadline = 250 * time.Millisecond })
		thaw := disk.freeze("sync")
		i, err := w.Intent(intentBody("late"), Durable)
		must(t, err)
		began := time.Now()
		_, err = i.Wait(context.Background())
		wantErr(t, err, ErrDeadline)
		if d := time.Since(began); d != 250*time.Millisecond {
			t.Errorf("refused after %v", d)
		}
		i.Abandon()
		// Written does not wait for the sync.
		o, err := w.Intent(intentBody("written"), Written)
		must(t, err)
		_, err = o.Wait(context.Background())
		must(t, err)
		must(t, o.Terminal(outcomeBody("written")))
		time.Sleep(time.Second)
		_, err = w.Intent(intentBody("refused"), Durable)
		wantErr(t, err, ErrBroken)
		thaw()
		synctest.Wait()
		call(t, w, "after")
		l.close(w)
		r := l.verify(nil)
		wantVerdict(t, r, Unanchored, "2 complete")
		if r.Calls.Abandons != 1 {
			t.Errorf("calls %+v, want one abandoned", r.Calls)
		}
	})
}

func TestFrozenWriteLeavesNothingBehind(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		thaw := disk.freeze("write")
		first, err := w.Intent(intentBody("first"), Written)
		must(t, err)
		synctest.Wait() // it is being written
		second, err := w.Intent(intentBody("second"), Written)
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer cancel()
		_, err = second.Wait(ctx)
		wantErr(t, err, ErrDeadline)
		second.Abandon()
		_, err = first.Wait(context.Background())
		wantErr(t, err, ErrDeadline)
		first.Abandon()
		first.Abandon() // does nothing
		thaw()
		l.close(w)
		equal(t, l.bodies(), []string{string(intentBody("first")), `{"v":1,"k":"log.abandoned","leaf":1}`})
		l.want(Unanchored, "")
		if s := w.Stats(); s.Open != 0 || s.Queued != 0 {
			t.Errorf("stats %+v", s)
		}
		if w.bytes != 0 || w.kept != int64(numClasses)*gapCost+int64(endLen) || w.cost != 0 {
			t.Errorf("accounts do not balance: %d bytes, %d kept, %d cost", w.bytes, w.kept, w.cost)
		}
	})
}

func TestFailedSyncWritesAgain(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		call(t, w, "before")
		synctest.Wait()
		time.Sleep(time.Second) // synced
		written, err := w.Intent(intentBody("written"), Written)
		must(t, err)
		_, err = written.Wait(context.Background())
		must(t, err)
		disk.set("sync", syscall.EIO)
		durable, err := w.Intent(intentBody("durable"), Durable)
		must(t, err)
		synctest.Wait()
		if w.Stats().Err == nil {
			t.Error("the breaker is closed")
		}
		_, err = w.Intent(intentBody("refused"), Written)
		wantErr(t, err, ErrBroken)
		must(t, written.Terminal(outcomeBody("written")))
		disk.set("sync", nil)
		_, err = durable.Wait(context.Background())
		wantErr(t, err, ErrDeadline)
		durable.Abandon()
		time.Sleep(probeEvery)
		call(t, w, "after")
		l.close(w)
		r := l.verify(func(o *VerifyOptions) { o.AllSignatures = true })
		wantVerdict(t, r, Unanchored, "written again")
		if r.Calls.Complete != 3 || r.Calls.Abandons > 1 || r.Calls.Unknown != 0 || r.Calls.Repeated != 0 {
			t.Errorf("calls %+v", r.Calls)
		}
		for _, b := range l.bodies() {
			if strings.Contains(b, "refused") {
				t.Errorf("a refused intent was written: %s", b)
			}
		}
	})
}

func TestShortWriteGoesOnInTheNextSegment(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		call(t, w, "before")
		synctest.Wait()
		disk.set("write", errShortly)
		i, err := w.Intent(intentBody("torn"), Durable)
		must(t, err)
		synctest.Wait()
		disk.set("write", nil)
		time.Sleep(probeEvery)
		synctest.Wait()
		_, err = i.Wait(context.Background())
		must(t, err)
		must(t, i.Terminal(outcomeBody("torn")))
		l.close(w)
		r := l.verify(nil)
		wantVerdict(t, r, Unanchored, "2 complete")
		if r.Segments != 2 {
			t.Errorf("%d segments, want 2", r.Segments)
		}
	})
}

func TestFullDiskKeepsItsPromises(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(func(c *Config) { c.Reserve = 16 << 10 })
		w.mu.Lock()
		w.room -= roomStep
		w.mu.Unlock()
		disk.set("reserve", syscall.ENOSPC)
		var opened []*Intent
		var err error
		for n := 0; ; n++ {
			var i *Intent
			if i, err = w.Intent(intentBody(fmt.Sprint(n)), Durable); err != nil {
				break
			}
			_, err = i.Wait(context.Background())
			must(t, err)
			opened = append(opened, i)
		}
		wantErr(t, err, ErrFull)
		if len(opened) == 0 {
			t.Fatal("no intent was taken")
		}
		_, err = w.Append([]byte(`{"v":1,"k":"note","call":""}`), Durable)
		t.Logf("%d intents, then %v", len(opened), err)
		for n, i := range opened {
			body := fmt.Appendf(nil, `{"v":1,"k":"outcome","call":"%d","x":"%0*d"}`, n, 3900, 0)
			must(t, i.Terminal(body))
		}
		synctest.Wait()
		time.Sleep(time.Second)
		// What is kept for gap records and END is left whole.
		if s := w.Stats(); s.Room < int64(numClasses)*gapCost+int64(endLen) || s.Open != 0 {
			t.Errorf("more was written than had been kept: %+v", s)
		}
		l.close(w)
		r := l.verify(func(o *VerifyOptions) {
			o.Classify = func(b []byte) (Event, error) { return classify([]byte(strings.Split(string(b), `,"x"`)[0] + "}")) }
		})
		wantVerdict(t, r, Unanchored, fmt.Sprintf("%d complete", len(opened)))
	})
}

func TestBreakerAndGap(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		o, err := w.Intent(intentBody("open"), Written)
		must(t, err)
		disk.set("write", syscall.EIO)
		_, err = w.Intent(intentBody("failing"), Written)
		must(t, err)
		synctest.Wait()
		wantErr(t, w.Stats().Err, ErrBroken)
		_, err = w.Intent(intentBody("c"), Written)
		wantErr(t, err, ErrBroken)
		wantErr(t, err, syscall.EIO)
		w.Missed(ClassIntent, "broken") // observed: the call went on
		must(t, w.Terminal(outcomeBody("c")))
		wantErr(t, w.Diagnostic([]byte(`{}`)), ErrBroken)
		must(t, o.Terminal(outcomeBody("open")))
		disk.set("write", nil)
		time.Sleep(probeEvery)
		synctest.Wait()
		must(t, w.Stats().Err)
		l.close(w)
		r := l.verify(nil)
		wantVerdict(t, r, Incomplete, "could not keep 2 records (1 of them intents)")
		if r.Calls.Complete != 1 || r.Calls.Unknown != 1 {
			t.Errorf("calls %+v", r.Calls)
		}
		list := strings.Join(l.bodies(), "\n")
		if !strings.Contains(list, `{"v":1,"k":"log.gap","class":"intent","count":1,"first":"2000-01-0`) ||
			!strings.Contains(list, `"class":"diagnostic","count":1`) {
			t.Errorf("records:\n%s", list)
		}
	})
}

func TestTerminalWithoutIntentOutsideAGapFails(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	must(t, w.Terminal(outcomeBody("c")))
	l.close(w)
	wantVerdict(t, l.verify(nil), Failed, "no recorded gap explains it")
}

func TestRemovedFileIsNoticed(t *testing.T) {
	l := newTestLog(t)
	w := l.open(func(c *Config) { c.HeadEvery = 10 * time.Millisecond })
	call(t, w, "c1")
	must(t, os.Remove(filepath.Join(l.strandPath(), "000000.seg")))
	call(t, w, "c2")
	call(t, w, "c3")
	l.close(w)
	l.want(Failed, "segment 0: is missing")
	wantVerdict(t, l.verify(nil), Failed, "file-removed")
	if s := w.Stats(); s.Segments != 2 {
		t.Errorf("stats %+v", s)
	}
}

func TestRemovedStrandIsNoticed(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "c1")
	must(t, os.RemoveAll(l.strandPath()))
	call(t, w, "c2")
	swept, err := l.spine().Sweep(context.Background())
	must(t, err)
	if len(swept) != 0 {
		t.Errorf("a live strand was swept: %v", swept)
	}
	l.close(w)
	l.want(Failed, "segment 0: is missing")
}

func TestQueueIsBounded(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(func(c *Config) { c.MaxRecords, c.MaxOpen, c.SlotBytes = 20, 4, 100 })
		thaw := disk.freeze("write")
		var err error
		var held []*Intent
		for range 4 {
			i, err := w.Intent(intentBody("c"), Written)
			must(t, err)
			held = append(held, i)
			synctest.Wait() // the first is being written
		}
		_, err = w.Intent(intentBody("c"), Written)
		wantErr(t, err, ErrFull)
		n := 0
		for w.Diagnostic([]byte(`{"v":1,"k":"note","call":""}`)) == nil {
			n++
		}
		if n != 12 {
			t.Errorf("%d diagnostics fit, want 12", n)
		}
		for n := range 8 {
			wantErr(t, w.Diagnostic(fmt.Appendf(nil, `{"n":%d}`, n)), ErrFull)
		}
		wantErr(t, held[0].Terminal(make([]byte, 101)), ErrBody)
		for _, i := range held {
			must(t, i.Terminal([]byte(`{"v":1,"k":"note","call":""}`)))
			must(t, i.Terminal([]byte(`{"twice":1}`))) // does nothing
		}
		thaw()
		l.close(w)
		list := l.bodies()
		if len(list) != 4+4+12+1 || !strings.Contains(strings.Join(list, "\n"), `"class":"diagnostic","count":9`) {
			t.Errorf("records:\n%s", strings.Join(list, "\n"))
		}
		if s := w.Stats(); s.Dropped != 9 || s.Refused != 1 {
			t.Errorf("stats %+v", s)
		}
	})
}

func TestDiagnosticsWaitForCompany(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		writes := disk.seen("write")
		must(t, w.Diagnostic([]byte(`{"n":1}`)))
		must(t, w.Diagnostic([]byte(`{"n":2}`)))
		time.Sleep(DefaultLazyAfter - time.Millisecond)
		synctest.Wait()
		if n := disk.seen("write") - writes; n != 0 {
			t.Errorf("%d writes before their time", n)
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if n := disk.seen("write") - writes; n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
		// An intent takes one along at once.
		must(t, w.Diagnostic([]byte(`{"n":3}`)))
		i, err := w.Append(intentBody("c"), Written)
		must(t, err)
		_, err = i.Wait(context.Background())
		must(t, err)
		if n := w.Stats().Queued; n > 4 {
			t.Errorf("%d records in memory", n)
		}
		l.close(w)
		if n := len(l.bodies()); n != 4 {
			t.Errorf("%d records", n)
		}
	})
}

func TestHeadsReachTheSpine(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		entries := func() uint64 {
			synctest.Wait()
			return l.verify(nil).Entries
		}
		before := entries()
		time.Sleep(2 * DefaultHeadEvery)
		if n := entries(); n != before {
			t.Errorf("%d entries without a record", n-before)
		}
		call(t, w, "c")
		time.Sleep(DefaultHeadEvery + time.Second)
		if n := entries(); n != before+1 {
			t.Errorf("%d entries for a record, want 1", n-before)
		}
		time.Sleep(rotateAfter)
		if n := entries(); n != before+2 {
			t.Errorf("%d entries, want one more for the rotation", n-before)
		}
		if s := w.Stats(); s.Segments != 2 {
			t.Errorf("%d segments after a day", s.Segments)
		}
		for n := range 2 * headLeaves {
			must(t, ignoreFull(w.Diagnostic(fmt.Appendf(nil, `{"v":1,"k":"note","call":"%d"}`, n))))
			if n%256 == 0 {
				call(t, w, fmt.Sprint(n))
			}
		}
		if n := entries(); n < before+3 {
			t.Errorf("no head after %d records", 2*headLeaves)
		}
		l.close(w)
		l.want(Unanchored, "")
	})
}

func ignoreFull(err error) error {
	if errors.Is(err, ErrFull) {
		return nil
	}
	return err
}

func TestRecipientsChange(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	call(t, w, "c1")
	id, rec, err := NewIdentity(true)
	must(t, err)
	both, err := ParseRecipients(l.recipients.Strings()[0] + "\n" + rec + "\n")
	must(t, err)
	must(t, w.SetRecipients(context.Background(), both))
	call(t, w, "c2")
	l.close(w)
	l.want(Unanchored, "2 segments")
	second, err := ParseIdentities([]byte(id), nil)
	must(t, err)
	// Case 34: one of two keys opens what was sealed to both.
	r := l.verify(func(o *VerifyOptions) { o.Identities, o.Classify = second, nil })
	wantVerdict(t, r, Incomplete, "segments 0 are sealed to other identities")
	if r.Opened != 2 || r.Sealed != 2 {
		t.Errorf("opened %d, not %d", r.Opened, r.Sealed)
	}
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.Recipients = l.recipients }), Failed, "another set of recipients")
	wantVerdict(t, l.verify(func(o *VerifyOptions) { o.Recipients = both }), Unanchored, "")
}

func TestCloseSaysWhatWasLost(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		i, err := w.Intent(intentBody("c"), Written)
		must(t, err)
		_, err = i.Wait(context.Background())
		must(t, err)
		time.Sleep(time.Second)
		disk.set("write", syscall.EROFS)
		must(t, i.Terminal(outcomeBody("c")))
		err = w.Close(context.Background())
		var loss *LossError
		if !errors.As(err, &loss) || loss.Records != 1 || !errors.Is(err, syscall.EROFS) {
			t.Errorf("Close: %v", err)
		}
		_, err = w.Append(intentBody("c"), Written)
		wantErr(t, err, ErrClosed)
		wantErr(t, i.Terminal(outcomeBody("c")), nil)
		r := l.verify(nil)
		wantVerdict(t, r, Incomplete, "unwritten")
	})
}

func TestCloseIsBoundedOnAFrozenDisk(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(nil)
		thaw := disk.freeze("write")
		i, err := w.Intent(intentBody("c"), Written)
		must(t, err)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		var loss *LossError
		if err := w.Close(ctx); !errors.As(err, &loss) || loss.Records == 0 {
			t.Errorf("Close: %v", err)
		}
		thaw()
		must(t, w.Close(context.Background()))
		if _, err := i.Wait(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenIsBoundedOnAFrozenDisk(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		thaw := disk.freeze("create")
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := Open(ctx, Config{Dir: l.dir, Recipients: l.recipients, Disk: newHookDisk(t, l.dir, disk.hook)})
		wantErr(t, err, ErrDeadline)
		thaw()
		synctest.Wait()
		l.want(Unanchored, "")
	})
}

func TestSlowDiskOpensTheBreaker(t *testing.T) {
	bubble(t, func(t *testing.T, l *testLog, disk *switchboard, open func(func(*Config)) *Writer) {
		w := open(func(c *Config) { c.Deadline = 100 * time.Millisecond })
		thaw := disk.freeze("sync")
		for range breakAfter {
			i, err := w.Intent(intentBody("c"), Durable)
			must(t, err)
			defer i.Release()
		}
		time.Sleep(90 * time.Millisecond)
		w.mu.Lock()
		w.timeouts = breakAfter
		w.mu.Unlock()
		_, err := w.Append(intentBody("c"), Written)
		wantErr(t, err, ErrBroken)
		thaw()
		synctest.Wait()
		_, err = w.Append(intentBody("d"), Written)
		must(t, err)
		l.close(w)
	})
}

func TestRefusedBodies(t *testing.T) {
	l := newTestLog(t)
	w := l.open(nil)
	for _, body := range []string{"", "1", "[]", `{"a":1,"a":2}`, `{"a":{"b":1,"\u0062":2}}`, `{"v":1,"k":"log.gap"}`, "{\n}", `{"a":"` + string([]byte{0xff}) + `"}`,
		`{"a":"` + strings.Repeat("x", MaxBody) + `"}`, strings.Repeat(`{"a":`, 70) + "1" + strings.Repeat("}", 70)} {
		if _, err := w.Append([]byte(body), Written); !errors.Is(err, ErrBody) {
			t.Errorf("%.40q: %v", body, err)
		}
	}
	l.close(w)
}
