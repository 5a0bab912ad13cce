package child

import (
	"os"
	"syscall"
	"time"
)

// A Ladder says how a child is stopped: its stdin is closed; after Grace its
// group gets SIGTERM; after Grace again SIGKILL.
type Ladder struct {
	Grace   time.Duration // of each rung; zero means Config.Grace
	TermNow bool          // SIGTERM at once
}

// order is what Stop has asked for so far.
type order struct {
	grace   time.Duration
	termNow bool
}

// Stop starts the ladder and returns at once. A later call can shorten what is
// left of it and cannot lengthen it. After the end it does nothing.
func (c *Child) Stop(l Ladder) {
	if l.Grace <= 0 {
		l.Grace = c.cfg.Grace
	}
	c.mu.Lock()
	if c.stop == nil {
		c.stop = &order{grace: l.Grace}
	}
	c.stop.grace = min(c.stop.grace, l.Grace)
	c.stop.termNow = c.stop.termNow || l.TermNow
	c.mu.Unlock()
	select {
	case c.stopAsked <- struct{}{}:
	default:
	}
}

// rung is where the supervisor stands.
type rung int

const (
	running rung = iota
	leaving      // stdin is closed, by Stop or because the child has exited
	termed
	killed
)

// supervisor ends the child. It is a state of the supervise goroutine alone.
type supervisor struct {
	*Child
	rung  rung
	since time.Time // when the rung was reached

	exited  bool
	natural bool          // it left running by an exit, not by Stop
	alone   bool          // exited, and none of the group was seen alive
	pause   time.Duration // until the group is looked at again
}

// Bounds of the pause between two looks at the group. A look reads the status
// of all processes of the system, so it is not made more often than needed.
const (
	minPause = time.Millisecond
	maxPause = 50 * time.Millisecond
)

// killWait is how long the death by SIGKILL is waited for at least: giving up
// earlier, because of a short grace, would lose an exit that comes.
const killWait = 5 * time.Second

// supervise runs the child's life: it waits for the exit or for Stop, climbs
// the ladder, and makes the report. The readers and the waiter have ended when
// it closes done.
func (c *Child) supervise() {
	defer close(c.done)
	s := &supervisor{Child: c, pause: minPause}
	timer := time.NewTimer(0)
	defer timer.Stop()
	outEnded, errEnded, exitedCh := c.stdout.ended, c.stderr.ended, c.exitedCh
	for {
		if s.exited = isClosed(c.exitedCh); s.exited {
			exitedCh = nil
		}
		next, over := s.step(time.Now())
		if over {
			break
		}
		var tick <-chan time.Time
		if next > 0 {
			timer.Reset(next)
			tick = timer.C
		}
		select {
		case <-exitedCh:
		case <-outEnded:
			outEnded = nil
		case <-errEnded:
			errEnded = nil
		case <-c.stopAsked:
		case <-tick:
		}
	}
	s.finish()
}

// step does what is due and returns when it wants to be called again at the
// latest, 0 meaning not before an event; over reports that nothing of the
// group is left to wait for.
func (s *supervisor) step(now time.Time) (next time.Duration, over bool) {
	o := s.order()
	if s.rung == running {
		if !s.exited && o == nil {
			return 0, false
		}
		s.natural = o == nil
		s.climb(leaving, now)
	}
	grace, asked := s.cfg.Grace, o != nil
	if asked {
		if grace = o.grace; s.natural {
			grace = min(grace, s.cfg.Grace) // which had begun
		}
		if s.rung == leaving {
			s.phase(phaseCancelled)
		}
	}
	piped := !isClosed(s.stdout.ended) || !isClosed(s.stderr.ended)
	if s.rung == killed {
		grace = max(grace, killWait)
	}
	left := s.since.Add(grace).Sub(now)
	if s.rung == leaving && !asked && piped && left > 0 {
		return left, false // the pipes are waited for, whoever holds them
	}
	s.look()

	switch s.rung {
	case leaving:
		switch {
		case s.alone && !piped:
			return 0, true
		case s.alone && asked:
			return 0, true // who holds the pipe is outside the ladder's reach
		case left <= 0, asked && o.termNow, s.exited && !asked && !piped:
			if s.alone {
				return 0, true
			}
			s.phase(phaseCancelled)
			s.climb(termed, now)
			s.signal(s.proc.terminate)
			if s.cfg.KillDescendants {
				for _, d := range s.Descendants() {
					d.Signal(syscall.SIGTERM)
				}
			}
			left = grace
		}
	case termed:
		switch {
		case s.alone:
			return 0, true
		case left <= 0:
			s.phase(phaseKilled)
			s.climb(killed, now)
			s.report.Forced = !s.exited || s.proc.groupAlive()
			s.signal(s.proc.kill)
			left = killWait
		}
	case killed:
		if s.alone || left <= 0 {
			return 0, true
		}
	}
	if s.exited && !s.alone {
		s.pause = min(2*s.pause, maxPause)
		left = min(left, s.pause)
	}
	return max(left, time.Nanosecond), false
}

// look finds out whether anything that the ladder must end is left.
func (s *supervisor) look() {
	if !s.exited || s.alone {
		return
	}
	s.alone = !s.proc.groupAlive()
	if s.alone && s.cfg.KillDescendants && s.rung != killed {
		s.alone = len(s.Descendants()) == 0
	}
}

func (s *supervisor) climb(r rung, now time.Time) {
	s.rung, s.since, s.pause = r, now, minPause
	if r == leaving {
		s.CloseStdin()
	}
}

// signal runs f unless the group's number may already be another's.
func (s *supervisor) signal(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.gone {
		f()
	}
}

// finish closes what is left, joins all goroutines and makes the report. The
// group is gone, or could not be ended.
func (s *supervisor) finish() {
	if s.exited {
		s.signal(s.proc.sweep)
	}
	// Nothing of the group can write any more. What it has written is still in
	// the pipes; whoever holds them open is outside the group.
	if s.cfg.KillDescendants && len(s.Child.Descendants()) > 0 {
		s.settle()
		s.phase(phaseHeldKilled) // counts for streams that have not ended
		s.killDescendants()
	}
	if !s.join(s.cfg.DrainAfterDeath) {
		s.phase(phaseHeldLeft)
	}
	s.stdout.f.Close()
	s.stderr.f.Close()
	<-s.stdout.ended
	<-s.stderr.ended
	s.markDied()
	s.drainTimer.Stop()
	s.markDrained()

	s.mu.Lock()
	s.gone = true
	e := s.exit
	s.mu.Unlock()
	close(s.release)
	if s.exited {
		<-s.reaped
	}
	// Else the kernel could not end the process. Its waiter stays behind, the
	// only goroutine that can: it reaps when the process ends after all.

	s.report.Pid, s.report.Started, s.report.Exited = s.proc.pid, s.started, e.at
	s.report.ExitCode, s.report.Signal = e.code, e.signal
	s.report.Stdout, s.report.Stderr = s.stdout.report(), s.stderr.report()
	for _, d := range s.Descendants() {
		s.note(d)
	}
	s.report.Ended = time.Now()
}

// settle waits until each pipe has ended or was found empty, or
// DrainAfterDeath has passed.
func (s *supervisor) settle() {
	timer := time.NewTimer(s.cfg.DrainAfterDeath)
	defer timer.Stop()
	for _, st := range []*stream{s.stdout, s.stderr} {
		select {
		case <-st.ended:
		case <-st.empty:
		case <-timer.C:
			return
		}
	}
}

// join waits for both readers and reports whether they have ended. A process
// that is on its way out is no longer found, and may still hold the pipes for
// an instant; hence the wait.
func (s *supervisor) join(wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for _, st := range []*stream{s.stdout, s.stderr} {
		select {
		case <-st.ended:
		case <-timer.C:
			return false
		}
	}
	return true
}

// killDescendants ends those that carry the marker, until none is found.
func (s *supervisor) killDescendants() {
	// They may be starting others; each round finds what the last one missed.
	for deadline := time.Now().Add(s.cfg.DrainAfterDeath); ; time.Sleep(minPause) {
		ds := s.Child.Descendants()
		for _, d := range ds {
			if d.Signal(os.Kill) == nil {
				d.Killed = true
				s.note(d)
			}
		}
		if len(ds) == 0 || time.Now().After(deadline) {
			return
		}
	}
}

// note adds a descendant to the report, once.
func (s *supervisor) note(d Process) {
	for _, o := range s.report.Descendants {
		if o.Pid == d.Pid && o.StartTime == d.StartTime {
			return
		}
	}
	s.report.Descendants = append(s.report.Descendants, d)
}

func (c *Child) order() *order {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop == nil {
		return nil
	}
	o := *c.stop
	return &o
}

func (c *Child) phase(p phase) {
	c.stdout.phase.Store(int32(p))
	c.stderr.phase.Store(int32(p))
}

func isClosed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}
