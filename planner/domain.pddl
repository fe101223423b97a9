; The Home Assistant Benchmark as PDDL: the types, predicates and actions of habitat-lab's rearrangement domain,
; written for any typed ADL planner (here: pddlpy). Positions and thresholds live in the simulator; this is symbols.
;
; A robot is "at" one thing at a time, so whatever moves the base elsewhere (driving, and opening, after which the
; base may have drifted: VER, appendix B) makes it drive again before the next interaction.
(define (domain home_rearrangement)
  (:requirements :strips :typing :negative-preconditions :disjunctive-preconditions
                 :universal-preconditions :conditional-effects)

  (:types
    static_obj robot - object
    art_receptacle obj - static_obj
    cab fridge - art_receptacle
    movable goal - obj)

  (:predicates
    (holding ?o - movable ?r - robot)
    (not_holding ?r - robot)
    (in ?o - obj ?c - art_receptacle)
    (opened_cab ?c - cab)
    (closed_cab ?c - cab)
    (opened_fridge ?c - fridge)
    (closed_fridge ?c - fridge)
    (robot_at ?x - static_obj ?r - robot)
    (object_at ?o - movable ?g - goal))

  ; Drive to an object's start or to a goal.
  (:action nav
    :parameters (?x - obj ?r - robot)
    :precondition (not (robot_at ?x ?r))
    :effect (and
      (forall (?y - static_obj) (not (robot_at ?y ?r)))
      (robot_at ?x ?r)))

  ; Drive to the front of the drawer or fridge that holds an object.
  (:action nav_to_receptacle
    :parameters (?c - art_receptacle ?o - obj ?r - robot)
    :precondition (and (in ?o ?c) (not (robot_at ?c ?r)))
    :effect (and
      (forall (?y - static_obj) (not (robot_at ?y ?r)))
      (robot_at ?c ?r)))

  (:action pick
    :parameters (?o - movable ?r - robot)
    :precondition (and
      (not_holding ?r)
      (robot_at ?o ?r)
      (forall (?c - cab) (or (not (in ?o ?c)) (not (closed_cab ?c))))
      (forall (?f - fridge) (or (not (in ?o ?f)) (not (closed_fridge ?f)))))
    :effect (and
      (holding ?o ?r)
      (not (not_holding ?r))
      (not (robot_at ?o ?r))
      (forall (?c - art_receptacle) (not (in ?o ?c)))
      (forall (?g - goal) (not (object_at ?o ?g)))))

  (:action place
    :parameters (?o - movable ?g - goal ?r - robot)
    :precondition (and
      (holding ?o ?r)
      (robot_at ?g ?r)
      (forall (?c - cab) (or (not (in ?g ?c)) (not (closed_cab ?c))))
      (forall (?f - fridge) (or (not (in ?g ?f)) (not (closed_fridge ?f)))))
    :effect (and
      (object_at ?o ?g)
      (not_holding ?r)
      (not (holding ?o ?r))))

  (:action open_cab
    :parameters (?c - cab ?o - obj ?r - robot)
    :precondition (and (robot_at ?c ?r) (closed_cab ?c) (in ?o ?c) (not_holding ?r))
    :effect (and (opened_cab ?c) (not (closed_cab ?c)) (not (robot_at ?c ?r))))

  (:action close_cab
    :parameters (?c - cab ?o - obj ?r - robot)
    :precondition (and (robot_at ?c ?r) (opened_cab ?c) (in ?o ?c) (not_holding ?r))
    :effect (and (closed_cab ?c) (not (opened_cab ?c)) (not (robot_at ?c ?r))))

  (:action open_fridge
    :parameters (?f - fridge ?o - obj ?r - robot)
    :precondition (and (robot_at ?f ?r) (closed_fridge ?f) (in ?o ?f) (not_holding ?r))
    :effect (and (opened_fridge ?f) (not (closed_fridge ?f)) (not (robot_at ?f ?r))))

  (:action close_fridge
    :parameters (?f - fridge ?o - obj ?r - robot)
    :precondition (and (robot_at ?f ?r) (opened_fridge ?f) (in ?o ?f) (not_holding ?r))
    :effect (and (closed_fridge ?f) (not (opened_fridge ?f)) (not (robot_at ?f ?r)))))
